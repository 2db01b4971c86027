// Sums through a workspace: all ranks in one thread over real shared-memory transports, advanced in random order, so
// that every interleaving of phases occurs; results against the reference kernels, bit for bit.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <thread>

#include "cases.h"
#include "exec/shared_collective.h"
#include "transports/shm/shm.h"

using namespace rondo;
using namespace rondo::test;

namespace {

// Sanitizers make each case some twenty times slower: they see every kEvery-th.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kEvery = 7;
#else
constexpr uint64_t kEvery = 1;
#endif

class Ranks {
 public:
  explicit Ranks(uint32_t world) : world_(world) {
    std::vector<Rank> all;
    std::vector<std::thread> connecting;
    for (Rank rank = 0; rank < world; ++rank) {
      auto made =
          make_shm({.identity = {.job = 21, .rank = rank, .world = world}, .segment_bytes = 2 << 20, .linger_ms = 200});
      REQUIRE(made.ok());
      transports_.push_back(std::move(made).value());
      all.push_back(rank);
    }
    std::vector<Status> connected(world);
    for (Rank rank = 0; rank < world; ++rank)
      connecting.emplace_back([&, rank] {
        std::vector<Peer> peers;
        for (Rank peer = 0; peer < world; ++peer)
          if (peer != rank) peers.push_back({peer, transports_[peer]->address()});
        connected[rank] = transports_[rank]->connect(peers, Deadline::after_ms(10'000));
      });
    for (std::thread& thread : connecting) thread.join();
    for (const Status& status : connected) REQUIRE(status.ok());
    std::vector<std::unique_ptr<SharedArea>> areas;
    for (Rank rank = 0; rank < world; ++rank) {
      auto area = transports_[rank]->share(1, all, sizeof(Workspace), Writers::members);
      REQUIRE(area.ok());
      REQUIRE(*area != nullptr);
      areas.push_back(std::move(*area));
    }
    for (Rank rank = 0; rank < world; ++rank)
      sums_.push_back(std::make_unique<SharedCollective>(std::move(areas[rank]), *transports_[rank], all, rank));
  }
  ~Ranks() { sums_.clear(); }

  uint32_t world() const { return world_; }
  SharedCollective& at(Rank rank) { return *sums_[rank]; }
  Transport& transport(Rank rank) { return *transports_[rank]; }

  // Until all have completed; false when nothing moves any more.
  bool run(std::mt19937& random) {
    std::vector<bool> complete(world_);
    for (int still = 0; still < 4000;) {
      const Rank rank = static_cast<Rank>(random() % world_);
      if (complete[rank]) {
        ++still;
        if (std::all_of(complete.begin(), complete.end(), [](bool c) { return c; })) return true;
        continue;
      }
      const SharedCollective::Step step = sums_[rank]->advance();
      complete[rank] = step == SharedCollective::Step::complete;
      still = step == SharedCollective::Step::still ? still + 1 : 0;
    }
    return false;
  }

 private:
  uint32_t world_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<SharedCollective>> sums_;
};

enum class Memory { own, allocated, mixed };

struct SumCase {
  size_t count;
  DType dtype;
  RedOp op;
  SharedForm form;
  Memory memory;
  size_t piece_bytes;
  bool in_place;
  size_t misalign;
  uint64_t seed;
};

// Memory of a rank: its own, with guards, or from alloc().
class RankBuffer {
 public:
  RankBuffer(Transport& transport, bool allocated, size_t bytes, size_t misalign) : own_(bytes, misalign) {
    if (!allocated) return;
    auto memory = transport.alloc(bytes + misalign);
    REQUIRE(memory.ok());
    transport_ = &transport;
    base_ = *memory;
    data_ = static_cast<std::byte*>(*memory) + misalign;
  }
  RankBuffer(const RankBuffer&) = delete;
  ~RankBuffer() {
    if (transport_ != nullptr) CHECK(transport_->free(base_).ok());
  }
  std::byte* data() { return transport_ != nullptr ? data_ : own_.data(); }
  bool guards_hold() const { return own_.guards_hold(); }

 private:
  GuardedBuffer own_;
  Transport* transport_ = nullptr;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
};

void run_sum(Ranks& ranks, const SumCase& c, std::mt19937& random) {
  const uint32_t world = ranks.world();
  const size_t bytes = c.count * size_of(c.dtype);
  std::vector<std::unique_ptr<RankBuffer>> inputs, outputs;
  std::vector<std::vector<std::byte>> originals(world, std::vector<std::byte>(bytes));
  std::vector<const void*> sources(world);
  const uint64_t turn = ranks.at(0).take_turn();
  for (Rank rank = 0; rank < world; ++rank) {
    const bool allocated = c.memory == Memory::allocated || (c.memory == Memory::mixed && rank % 2 == 1);
    inputs.push_back(std::make_unique<RankBuffer>(ranks.transport(rank), allocated, bytes, c.misalign));
    if (!c.in_place)
      outputs.push_back(std::make_unique<RankBuffer>(ranks.transport(rank), allocated, bytes, c.misalign));
    fill(originals[rank].data(), c.count, c.dtype, c.op, c.seed, rank);
    if (bytes > 0) std::memcpy(inputs[rank]->data(), originals[rank].data(), bytes);
    sources[rank] = originals[rank].data();
    if (rank > 0) REQUIRE(ranks.at(rank).take_turn() == turn);
    ranks.at(rank).begin(turn, {.input = inputs[rank]->data(),
                                .output = (c.in_place ? inputs : outputs)[rank]->data(),
                                .count = c.count,
                                .dtype = c.dtype,
                                .op = c.op,
                                .divisor = c.op == RedOp::avg ? world : 0,
                                .piece_bytes = c.piece_bytes,
                                .form = c.form,
                                .fingerprint = c.seed});
  }
  REQUIRE(ranks.run(random));
  std::vector<std::byte> expected(bytes);
  kernels::reference().reduce[static_cast<size_t>(c.dtype)][static_cast<size_t>(c.op)](
      {.sources = sources.data(),
       .source_count = world,
       .dst = expected.data(),
       .dst2 = nullptr,
       .count = c.count,
       .divisor = c.op == RedOp::avg ? world : 0});
  for (Rank rank = 0; rank < world && bytes > 0; ++rank) {
    INFO("rank " << rank);
    CHECK(std::memcmp((c.in_place ? inputs : outputs)[rank]->data(), expected.data(), bytes) == 0);
    if (!c.in_place) CHECK(std::memcmp(inputs[rank]->data(), originals[rank].data(), bytes) == 0);
    CHECK(inputs[rank]->guards_hold());
  }
}

}  // namespace

TEST_CASE("shared sums: every form, memory, count and type, worlds 2 to 9, many turns on one workspace") {
  constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::int8, DType::float64, DType::uint16};
  constexpr RedOp kOps[] = {RedOp::sum, RedOp::max, RedOp::avg};
  std::mt19937 random(1);
  for (uint32_t world = 2; world <= 9; ++world) {
    Ranks ranks(world);
    uint64_t met = 0;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{world - 1}, size_t{world}, size_t{world + 1},
                               size_t{1000}, size_t{4099}, size_t{65537}})
      for (const SharedForm form : {SharedForm::rounds, SharedForm::claims})
        for (const Memory memory : {Memory::own, Memory::allocated, Memory::mixed})
          for (const size_t piece_bytes : {size_t{64}, size_t{4096}, size_t{1} << 20})
            for (const bool in_place : {false, true}) {
              if (++met % kEvery != 0) continue;
              // The smallest pieces only where they do not make thousands of rounds.
              const size_t piece = count > 5000 && piece_bytes == 64 ? 1024 : piece_bytes;
              const SumCase c{.count = count,
                              .dtype = kTypes[met % std::size(kTypes)],
                              .op = kOps[met % std::size(kOps)],
                              .form = form,
                              .memory = memory,
                              .piece_bytes = piece,
                              .in_place = in_place,
                              .misalign = met % 4 == 0 ? size_of(kTypes[met % std::size(kTypes)]) : 0,
                              .seed = met};
              INFO("world " << world << " count " << count << " " << name(c.dtype) << " " << name(c.op) << " form "
                            << static_cast<int>(form) << " memory " << static_cast<int>(memory) << " piece " << piece
                            << (in_place ? " in place" : " out of place"));
              run_sum(ranks, c, random);
            }
  }
}

TEST_CASE("shared sums: more rounds than slots, and outputs beyond the caches") {
  std::mt19937 random(2);
  for (const uint32_t world : {2u, 3u, 5u}) {
    Ranks ranks(world);
    for (const SharedForm form : {SharedForm::rounds, SharedForm::claims})
      for (const Memory memory : {Memory::own, Memory::allocated})
        for (const bool in_place : {false, true}) {
          INFO("world " << world << " form " << static_cast<int>(form) << " memory " << static_cast<int>(memory));
          run_sum(ranks,
                  {.count = (5 << 20) + 3,
                   .dtype = DType::float32,
                   .op = RedOp::sum,
                   .form = form,
                   .memory = memory,
                   .piece_bytes = 32 << 10,
                   .in_place = in_place,
                   .misalign = 4,
                   .seed = world},
                  random);
        }
  }
}

TEST_CASE("shared sums: a turn with another fingerprint stops everybody before anything is summed") {
  Ranks ranks(3);
  std::vector<std::vector<float>> in(3, std::vector<float>(50'000, 1)), out(3, std::vector<float>(50'000, -1));
  for (const SharedForm form : {SharedForm::rounds, SharedForm::claims}) {
    Ranks fresh(3);
    for (Rank rank = 0; rank < 3; ++rank) {
      const uint64_t turn = fresh.at(rank).take_turn();
      fresh.at(rank).begin(turn, {.input = reinterpret_cast<std::byte*>(in[rank].data()),
                                  .output = reinterpret_cast<std::byte*>(out[rank].data()),
                                  .count = rank == 1 ? 49'999u : 50'000u,
                                  .dtype = DType::float32,
                                  .piece_bytes = 4096,
                                  .form = form,
                                  .fingerprint = rank == 1 ? 7u : 8u});
    }
    std::mt19937 random(3);
    CHECK_FALSE(fresh.run(random));
    CHECK(fresh.at(0).differing() == 1u);
    CHECK(fresh.at(1).differing() == 0u);
    CHECK(fresh.at(2).differing() == 1u);
    for (const auto& buffer : out)
      CHECK(std::all_of(buffer.begin(), buffer.end(), [](float value) { return value == -1; }));
  }
}

TEST_CASE("shared sums: who is awaited") {
  Ranks ranks(3);
  std::vector<float> memory(1000, 1);
  const auto begin = [&](Rank rank) {
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    ranks.at(rank).begin(ranks.at(rank).take_turn(),
                         {.input = data, .output = data, .count = 10, .dtype = DType::float32, .fingerprint = 1});
    for (int i = 0; i < 10; ++i) ranks.at(rank).advance();
  };
  begin(0);
  CHECK(ranks.at(0).awaited() == std::vector<uint32_t>{1, 2});
  begin(2);
  for (int i = 0; i < 10; ++i) ranks.at(0).advance();
  CHECK(ranks.at(0).awaited() == std::vector<uint32_t>{1});
}

TEST_CASE("shared sums: after a turn has been given up no other rank touches the buffers") {
  Ranks ranks(2);
  constexpr size_t kCount = 100'000;
  std::vector<float*> in, out;
  for (Rank rank = 0; rank < 2; ++rank) {
    // Both buffers in one allocation: they share a page.
    auto memory = ranks.transport(rank).alloc(2 * kCount * sizeof(float));
    REQUIRE(memory.ok());
    in.push_back(static_cast<float*>(*memory));
    out.push_back(in.back() + kCount);
    std::fill_n(in[rank], kCount, 1.0f);
    std::fill_n(out[rank], kCount, -1.0f);
    ranks.at(rank).begin(ranks.at(rank).take_turn(), {.input = reinterpret_cast<std::byte*>(in[rank]),
                                                      .output = reinterpret_cast<std::byte*>(out[rank]),
                                                      .count = kCount,
                                                      .dtype = DType::float32,
                                                      .piece_bytes = 16 << 10,
                                                      .fingerprint = 5});
  }
  CHECK(ranks.at(0).advance() != SharedCollective::Step::complete);
  ranks.at(0).abandon();
  const std::vector<float> kept_in(in[0], in[0] + kCount), kept_out(out[0], out[0] + kCount);
  std::fill_n(in[0], kCount, 3.0f);
  for (int i = 0; i < 100; ++i) ranks.at(1).advance();
  CHECK(std::all_of(in[0], in[0] + kCount, [](float value) { return value == 3; }));
  CHECK(std::equal(kept_out.begin(), kept_out.end(), out[0]));
  // The other rank, which goes on, still reads what was given.
  CHECK(std::all_of(out[1], out[1] + kCount, [](float value) { return value == 2 || value == -1; }));
  CHECK(ranks.transport(0).free(in[0]).ok());
}

namespace {

// One of many calls, the same on all ranks.
struct Turn {
  Collective collective;
  size_t count;
  uint32_t root;
  SharedForm form;
  size_t piece_bytes;
  bool in_place;
};

Turn random_turn(std::mt19937& random, uint32_t world) {
  constexpr Collective kAll[] = {Collective::allreduce, Collective::barrier,   Collective::broadcast,
                                 Collective::broadcast, Collective::allgather, Collective::reduce_scatter,
                                 Collective::alltoall};
  constexpr size_t kPieces[] = {64, 512, 4096, 64 << 10};
  Turn turn{.collective = kAll[random() % std::size(kAll)],
            .count = random() % 3 == 0 ? random() % 20'000 : random() % 40,
            .root = static_cast<uint32_t>(random() % world),
            .form = SharedForm::rounds,
            .piece_bytes = kPieces[random() % std::size(kPieces)],
            .in_place = random() % 2 == 0};
  if (turn.collective == Collective::barrier) turn.count = 0;
  if (turn.collective == Collective::allreduce && random() % 2 == 0) turn.form = SharedForm::claims;
  if (turn.collective == Collective::alltoall) turn.in_place = false;
  return turn;
}

int32_t value(uint32_t rank, uint64_t turn, size_t i) {
  return static_cast<int32_t>(rank * 1'000'003 + turn * 7919 + i * 31);
}

// One rank's way through all calls; others may be turns behind or ahead.
class Traveller {
 public:
  Traveller(SharedCollective& shared, const std::vector<Turn>& turns, uint32_t world, uint32_t rank)
      : shared_(shared), turns_(turns), world_(world), rank_(rank) {}
  bool arrived() const { return at_ == turns_.size(); }
  // Whether anything has moved.
  bool advance() {
    const uint64_t number = at_ + 1;
    if (!begun_) {
      if (!shared_.may_begin(number)) return false;
      REQUIRE(shared_.take_turn() == number);
      begin(turns_[at_], number);
      begun_ = true;
      return true;
    }
    const SharedCollective::Step step = shared_.advance();
    if (step == SharedCollective::Step::complete) {
      check(turns_[at_], number);
      begun_ = false;
      ++at_;
    }
    return step != SharedCollective::Step::still;
  }

 private:
  void begin(const Turn& turn, uint64_t number) {
    const bool in_blocks = turn.collective == Collective::reduce_scatter || turn.collective == Collective::alltoall;
    const bool out_blocks = turn.collective == Collective::allgather || turn.collective == Collective::alltoall;
    in_.resize(turn.count * (in_blocks ? world_ : 1));
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = value(rank_, number, i);
    out_.assign(turn.count * (out_blocks ? world_ : 1), -1);
    int32_t *input = in_.data(), *output = out_.data();
    if (turn.collective == Collective::broadcast) {
      if (rank_ == turn.root) std::copy(in_.begin(), in_.end(), out_.begin());
      input = output;
    } else if (turn.in_place && turn.collective == Collective::allreduce) {
      std::copy(in_.begin(), in_.end(), out_.begin());
      input = output;
    } else if (turn.in_place && turn.collective == Collective::allgather) {
      input = output + rank_ * turn.count;
      std::copy(in_.begin(), in_.end(), input);
    } else if (turn.in_place && turn.collective == Collective::reduce_scatter) {
      output = input + rank_ * turn.count;
    }
    result_ = output;
    shared_.begin(number, {.collective = turn.collective,
                           .input = reinterpret_cast<std::byte*>(input),
                           .output = reinterpret_cast<std::byte*>(output),
                           .count = turn.count,
                           .dtype = DType::int32,
                           .root = turn.root,
                           .piece_bytes = turn.piece_bytes,
                           .form = turn.form,
                           .fingerprint = number * 13});
  }
  void check(const Turn& turn, uint64_t number) {
    const auto sum = [&](size_t i) {
      uint32_t all = 0;
      for (uint32_t rank = 0; rank < world_; ++rank) all += static_cast<uint32_t>(value(rank, number, i));
      return static_cast<int32_t>(all);
    };
    const size_t blocks =
        turn.collective == Collective::allgather || turn.collective == Collective::alltoall ? world_ : 1;
    size_t wrong = 0;
    for (size_t i = 0; i < turn.count * blocks; ++i) {
      const auto block = static_cast<uint32_t>(i / std::max<size_t>(turn.count, 1));
      const size_t within = i % std::max<size_t>(turn.count, 1);
      const int32_t expected = turn.collective == Collective::allreduce        ? sum(i)
                               : turn.collective == Collective::reduce_scatter ? sum(rank_ * turn.count + i)
                               : turn.collective == Collective::broadcast      ? value(turn.root, number, i)
                               : turn.collective == Collective::allgather
                                   ? value(block, number, within)
                                   : value(block, number, rank_ * turn.count + within);
      wrong += result_[i] != expected;
    }
    INFO("turn " << number << " " << name(turn.collective) << " count " << turn.count << " rank " << rank_ << " of "
                 << world_ << " piece " << turn.piece_bytes << (turn.in_place ? " in place" : ""));
    CHECK(wrong == 0);
  }

  SharedCollective& shared_;
  const std::vector<Turn>& turns_;
  uint32_t world_, rank_;
  size_t at_ = 0;
  bool begun_ = false;
  std::vector<int32_t> in_, out_;
  int32_t* result_ = nullptr;
};

}  // namespace

TEST_CASE("shared collectives: long walks through all of them, ranks turns apart, worlds 2 to 9") {
  for (uint32_t world = 2; world <= 9; ++world) {
    std::mt19937 random(world);
    std::vector<Turn> turns;
    for (int i = 0; i < 700 / static_cast<int>(kEvery); ++i) turns.push_back(random_turn(random, world));
    Ranks ranks(world);
    std::vector<Traveller> travellers;
    for (Rank rank = 0; rank < world; ++rank) travellers.emplace_back(ranks.at(rank), turns, world, rank);
    int still = 0;
    while (still < 4000 && !std::all_of(travellers.begin(), travellers.end(), [](auto& t) { return t.arrived(); })) {
      // One rank is favoured for a while, so that it runs as far ahead as it can.
      const auto favourite = static_cast<uint32_t>(random() % world);
      for (uint32_t burst = random() % 200; burst > 0; --burst) {
        Traveller& traveller = travellers[random() % 4 == 0 ? random() % world : favourite];
        const bool moved = !traveller.arrived() && traveller.advance();
        still = moved ? 0 : still + 1;
      }
    }
    for (Rank rank = 0; rank < world; ++rank) {
      INFO("rank " << rank << " of " << world << " awaits " << ranks.at(rank).awaited().size());
      CHECK(travellers[rank].arrived());
    }
  }
}
