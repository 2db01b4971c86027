// The worker on Gloo (TCP over loopback, the only transport it has here). GLOO_RANK, GLOO_WORLD and GLOO_DIR (an empty
// folder where ranks meet) come from bench/compare.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "worker.h"

namespace {

class Gloo final : public peers::Engine {
 public:
  Gloo(int rank, int world, const char* folder) : context_(std::make_shared<gloo::rendezvous::Context>(rank, world)) {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }
  int rank() const override { return context_->rank; }
  int world() const override { return context_->size; }
  void run(const peers::Call& call) override {
    switch (call.collective) {
      case peers::Collective::allreduce: {
        gloo::AllreduceOptions options(context_);
        options.setInput(call.in, call.count);
        options.setOutput(call.out, call.count);
        options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
        return gloo::allreduce(options);
      }
      case peers::Collective::allgather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(call.in, call.block);
        options.setOutput(call.out, call.count);
        return gloo::allgather(options);
      }
      case peers::Collective::broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setOutput(call.out, call.count);
        options.setRoot(0);
        return gloo::broadcast(options);
      }
      case peers::Collective::alltoall: {
        gloo::AlltoallOptions options(context_);
        options.setInput(call.in, call.count);
        options.setOutput(call.out, call.count);
        return gloo::alltoall(options);
      }
      case peers::Collective::reduce_scatter:  // it has none of this form; bench/compare leaves it out
        std::exit(3);
    }
  }
  void max(double* values, size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values, count);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  const char *rank = std::getenv("GLOO_RANK"), *world = std::getenv("GLOO_WORLD"), *folder = std::getenv("GLOO_DIR");
  if (rank == nullptr || world == nullptr || folder == nullptr) return 2;
  Gloo engine(std::atoi(rank), std::atoi(world), folder);
  return peers::run(engine, argc, argv);
}
