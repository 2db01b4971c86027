# micro_kernels: bandwidth of every kernel table beside its own copy.
add_executable(micro_kernels ${CMAKE_CURRENT_LIST_DIR}/micro_kernels.cpp)
target_link_libraries(micro_kernels PRIVATE rondo_kernels)
