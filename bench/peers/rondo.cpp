// The worker on Rondo. BENCH_ALLOC=1: buffers from rondo_alloc.
#include "rondo/rondo.h"

#include "worker.h"

namespace {

void must(rondo_comm* comm, rondo_status status) {
  if (status == RONDO_OK) return;
  char text[512];
  rondo_error_text(comm, text, sizeof text);
  std::fprintf(stderr, "rondo: %s\n", text);
  std::exit(1);
}

class Rondo final : public peers::Engine {
 public:
  explicit Rondo(bool shared) : shared_(shared) { must(nullptr, rondo_init(nullptr, &comm_)); }
  ~Rondo() override { rondo_destroy(comm_); }
  int rank() const override { return rondo_rank(comm_); }
  int world() const override { return rondo_world(comm_); }
  void run(const peers::Call& call) override {
    const auto [collective, in, out, count, block] = call;
    switch (collective) {
      case peers::Collective::allreduce:
        return must(comm_, rondo_allreduce(comm_, in, out, count, RONDO_FLOAT32, RONDO_SUM, nullptr));
      case peers::Collective::reduce_scatter:
        return must(comm_, rondo_reduce_scatter(comm_, in, out, block, RONDO_FLOAT32, RONDO_SUM, nullptr));
      case peers::Collective::allgather:
        return must(comm_, rondo_allgather(comm_, in, out, block, RONDO_FLOAT32, nullptr));
      case peers::Collective::broadcast:
        return must(comm_, rondo_broadcast(comm_, out, count, RONDO_FLOAT32, 0, nullptr));
      case peers::Collective::alltoall:
        return must(comm_, rondo_alltoall(comm_, in, out, block, RONDO_FLOAT32, nullptr));
    }
  }
  void max(double* values, size_t count) override {
    must(comm_, rondo_allreduce(comm_, values, values, count, RONDO_FLOAT64, RONDO_MAX, nullptr));
  }
  void barrier() override { must(comm_, rondo_barrier(comm_, nullptr)); }
  float* buffer(size_t count) override {
    if (!shared_) return Engine::buffer(count);
    void* memory = nullptr;
    must(comm_, rondo_alloc(comm_, count * sizeof(float), &memory));
    return static_cast<float*>(memory);
  }

 private:
  rondo_comm* comm_ = nullptr;
  bool shared_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* alloc = std::getenv("BENCH_ALLOC");
  Rondo engine(alloc != nullptr && *alloc == '1');
  return peers::run(engine, argc, argv);
}
