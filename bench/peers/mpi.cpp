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
  void run(const peers::Call& call) override {
    const int count = static_cast<int>(call.count), block = static_cast<int>(call.block);
    switch (call.collective) {
      case peers::Collective::allreduce:
        MPI_Allreduce(call.in, call.out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case peers::Collective::reduce_scatter:
        MPI_Reduce_scatter_block(call.in, call.out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case peers::Collective::allgather:
        MPI_Allgather(call.in, block, MPI_FLOAT, call.out, block, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case peers::Collective::broadcast:
        MPI_Bcast(call.out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case peers::Collective::alltoall:
        MPI_Alltoall(call.in, block, MPI_FLOAT, call.out, block, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    }
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
