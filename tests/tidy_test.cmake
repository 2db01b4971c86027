# The rules of the house over the whole tree, and the check that each rule finds what it is for.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND NOT RONDO_SANITIZE)
  add_test(NAME tidy_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tidy_test.py ${PROJECT_SOURCE_DIR})
  add_test(NAME tidy_self_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tidy_test.py --self-test)
  set_tests_properties(tidy_test tidy_self_test PROPERTIES LABELS tidy TIMEOUT 60)
endif()
