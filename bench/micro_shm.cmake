if(TARGET rondo_transport_shm)
  add_executable(micro_shm micro_shm.cpp)
  target_link_libraries(micro_shm PRIVATE rondo_transport_shm)
endif()
