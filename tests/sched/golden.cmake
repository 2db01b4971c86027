target_compile_definitions(dump_test PRIVATE RONDO_GOLDEN_DIR="${CMAKE_CURRENT_LIST_DIR}/golden")
