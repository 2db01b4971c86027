if(TARGET rondo-perf AND TARGET rondo-run)
  add_test(NAME perf_matrix COMMAND ${CMAKE_CURRENT_LIST_DIR}/perf_matrix.sh $<TARGET_FILE_DIR:rondo-run>)
  # More than 2^31 elements in one call, in the release build (8 GiB of memory).
  add_test(NAME perf_huge_count
           COMMAND rondo-run -n 2 --no-prefix $<TARGET_FILE:rondo-perf> allreduce -b 2147483664 -e 2147483664 -d int8 -o sum
                   --in-place yes --verify-only)
  set_tests_properties(perf_matrix perf_huge_count PROPERTIES LABELS tools RUN_SERIAL ON TIMEOUT 600)
  set_tests_properties(perf_huge_count PROPERTIES PASS_REGULAR_EXPRESSION "# wrong: 0")
endif()
