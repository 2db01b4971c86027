# Installs this build into a temporary folder, moves it, and builds and runs programs of a user against it.
if(TARGET rondo AND NOT RONDO_SANITIZE)
  add_test(NAME package_test
           COMMAND ${CMAKE_CURRENT_LIST_DIR}/package_test.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER}
                   ${CMAKE_CXX_COMPILER})
  set_tests_properties(package_test PROPERTIES LABELS package ENVIRONMENT
                                                   "CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endif()
