// The worker on MPI; built once with each MPI's compiler wrapper.
#include <mpi.h>

#include "worker.h"

namespace {

class Mpi final : public peers::Engine {
 public:
  Mpi(int* argc, char*** argv) { MPI_Init(argc, argv); }
  ~Mpi() override { MPI_Finalize(); }
  int rank() const override {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int world() const override {
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  void allreduce(const float* in, float* out, size_t count) override {
    MPI_Allreduce(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void max(double* values, size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
};

}  // namespace

int main(int argc, char** argv) {
  Mpi engine(&argc, &argv);
  return peers::run(engine, argc, argv);
}
