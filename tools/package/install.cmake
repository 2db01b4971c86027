# What `cmake --install` puts where: the library, its headers, the CMake package Rondo (target Rondo::rondo), rondo.pc
# and the programs. Everything is found relative to itself, so an installed tree may be moved.
include(CMakePackageConfigHelpers)

if(TARGET rondo)
  install(TARGETS rondo EXPORT rondo_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  install(FILES ${PROJECT_BINARY_DIR}/include/rondo/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo)

  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Rondo)
  install(EXPORT rondo_targets NAMESPACE Rondo:: FILE RondoTargets.cmake DESTINATION ${package_folder})
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/RondoConfig.cmake.in ${PROJECT_BINARY_DIR}/RondoConfig.cmake
                                INSTALL_DESTINATION ${package_folder})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/RondoConfigVersion.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/RondoConfig.cmake ${PROJECT_BINARY_DIR}/RondoConfigVersion.cmake
          DESTINATION ${package_folder})

  set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH pc_to_prefix /prefix/${pc_folder} /prefix)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/rondo.pc.in ${PROJECT_BINARY_DIR}/rondo.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/rondo.pc DESTINATION ${pc_folder})
endif()

foreach(program rondo-run rondo-perf rondo-info rondo-sched rondo-sim rondo-train rondo-plan rondo-top)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
