// A user's C++17 program.
#include <iostream>
#include <rondo/rondo.hpp>
#include <vector>

int main() {
  try {
    rondo::Comm comm;
    std::vector<double> values = {1.5, -2.0};
    comm.allreduce(values, values, RONDO_SUM);
    return values[0] == 1.5 && values[1] == -2.0 ? 0 : 1;
  } catch (const rondo::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
