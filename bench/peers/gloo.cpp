// The worker on Gloo (TCP over loopback, the only transport it has here). GLOO_RANK, GLOO_WORLD and GLOO_DIR (an empty
// folder where ranks meet) come from bench/compare.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
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
  void allreduce(const float* in, float* out, size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setInput(const_cast<float*>(in), count);
    options.setOutput(out, count);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
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
