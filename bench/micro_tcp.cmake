if(TARGET rondo_transport_tcp)
  add_executable(micro_tcp micro_tcp.cpp)
  target_link_libraries(micro_tcp PRIVATE rondo_transport_tcp)
endif()
