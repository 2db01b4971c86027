if(TARGET rondo)
  add_executable(micro_bet micro_bet.cpp)
  target_link_libraries(micro_bet PRIVATE rondo rondo_kernels)
endif()
