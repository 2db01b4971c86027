# The full product is some hundred thousand cases: two to three minutes on an idle core.
set_tests_properties(product_test PROPERTIES TIMEOUT 900)
