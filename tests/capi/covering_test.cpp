// The C library with ranks as threads, worlds 1 to 9, over shm, tcp and mixed hosts: a covering walk over collectives,
// algorithms, counts, types, operators, alignments, in place and not, blocking and not.
#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>

#include "kernels/kernels.h"
#include "ranks.h"

using namespace rondo_test;

namespace {

constexpr const char* kAlgorithms[] = {
    nullptr, "ring",   "direct", "recursive_doubling", "halving_doubling", "tree", "chain", "binomial",
    "bruck", "linear", "flat",   "scatter_allgather"};

// Values that every type adds and multiplies exactly for up to 9 ranks (E5M2 holds whole numbers up to 8).
struct Values {
  rondo::DType dtype;
  rondo::RedOp op;

  std::vector<std::byte> make(size_t count, int32_t rank, uint32_t seed) const {
    std::vector<int32_t> ints(count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t random =
          static_cast<uint32_t>((i * 2654435761u + static_cast<uint32_t>(rank) * 40503u + seed) >> 7);
      ints[i] = op == rondo::RedOp::prod ? 1 : static_cast<int32_t>(random % 2) * (rank < 8);
    }
    std::vector<std::byte> data(count * rondo::size_of(dtype));
    // 0 and 1 of each format.
    uint64_t one = 1;
    switch (dtype) {
      case rondo::DType::float32:
        one = 0x3f800000u;
        break;
      case rondo::DType::float64:
        one = 0x3ff0000000000000u;
        break;
      case rondo::DType::float16:
        one = 0x3c00u;
        break;
      case rondo::DType::bfloat16:
        one = 0x3f80u;
        break;
      case rondo::DType::float8_e4m3:
        one = 0x38u;
        break;
      case rondo::DType::float8_e5m2:
        one = 0x3cu;
        break;
      default:
        break;
    }
    for (size_t i = 0; i < count; ++i)
      if (ints[i] != 0) std::memcpy(data.data() + i * rondo::size_of(dtype), &one, rondo::size_of(dtype));
    return data;
  }
};

struct Step {
  uint32_t number;
  int32_t world;
  rondo::Collective collective;
  size_t count;
  rondo::DType dtype;
  rondo::RedOp op;
  int32_t root;
  size_t misalign;
  bool in_place, blocking, vector_form;

  std::string words() const {
    return fmt::format("step {}: {}{} world {} count {} {} {} root {} misalign {}{}{}", number, rondo::name(collective),
                       vector_form ? "v" : "", world, count, rondo::name(dtype), rondo::name(op), root, misalign,
                       in_place ? " in place" : "", blocking ? "" : " non-blocking");
  }
};

Step step_of(uint32_t n, int32_t world) {
  const size_t p = static_cast<size_t>(world);
  const size_t counts[] = {0, 1, 2, p - 1, p, p + 1, 1000, 65537};
  Step s{.number = n,
         .world = world,
         .collective = static_cast<rondo::Collective>(n % rondo::kCollectiveCount),
         .count = counts[(n / 3 + n) % 8],
         .dtype = static_cast<rondo::DType>((n / 2 + n) % rondo::kDTypeCount),
         .op = static_cast<rondo::RedOp>((n / 5 + n) % rondo::kRedOpCount),
         .root = static_cast<int32_t>((n / 7) % p),
         .misalign = std::initializer_list<size_t>{0, 1, 8, 63}.begin()[(n / 9) % 4],
         .in_place = n % 4 < 2,
         .blocking = n % 5 != 0,
         .vector_form = n % 3 == 0};
  if (!rondo::is_defined(s.dtype, s.op)) s.op = rondo::RedOp::max;
  if (s.collective == rondo::Collective::reduce || s.collective == rondo::Collective::gather ||
      s.collective == rondo::Collective::scatter || s.collective == rondo::Collective::alltoall)
    s.in_place = false;
  if (s.collective != rondo::Collective::allgather && s.collective != rondo::Collective::reduce_scatter &&
      s.collective != rondo::Collective::alltoall)
    s.vector_form = false;
  return s;
}

std::vector<std::byte> reduced(const Step& s, size_t count, size_t begin) {
  const Values values{s.dtype, s.op};
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const void*> sources;
  const size_t total = begin + count;
  for (int32_t rank = 0; rank < s.world; ++rank) {
    inputs.push_back(values.make(std::max(total, size_t{1}), rank, s.number));
    sources.push_back(inputs.back().data() + begin * rondo::size_of(s.dtype));
  }
  std::vector<std::byte> out(count * rondo::size_of(s.dtype));
  rondo::kernels::reference().reduce[static_cast<size_t>(s.dtype)][static_cast<size_t>(s.op)](
      {.sources = sources.data(),
       .source_count = static_cast<uint32_t>(s.world),
       .dst = out.data(),
       .dst2 = nullptr,
       .count = count,
       .divisor = s.op == rondo::RedOp::avg ? static_cast<uint32_t>(s.world) : 0});
  return out;
}

// A buffer that begins `misalign` bytes off, with guards that the destructor's owner checks.
struct Buffer {
  std::vector<std::byte> memory;
  std::byte* data;
  size_t bytes;
  Buffer(size_t wanted, size_t misalign) : memory(wanted + misalign + 256, std::byte{0x77}), bytes(wanted) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data()) + 64;
    data = memory.data() + 64 + (64 - at % 64) % 64 + misalign;
  }
  bool guards() const {
    for (const std::byte& b : memory)
      if ((&b < data || &b >= data + bytes) && b != std::byte{0x77}) return false;
    return true;
  }
};

class Runner {
 public:
  Runner(rondo_comm* comm, int32_t rank, Notes& notes, const Step& s)
      : comm_(comm), rank_(rank), notes_(notes), s_(s), size_(rondo::size_of(s.dtype)), values_{s.dtype, s.op} {}

  void run() {
    switch (s_.collective) {
      case rondo::Collective::barrier:
        return finish(rondo_barrier(comm_, op()));
      case rondo::Collective::allreduce:
        return allreduce();
      case rondo::Collective::reduce:
        return reduce();
      case rondo::Collective::broadcast:
        return broadcast();
      case rondo::Collective::allgather:
        return allgather();
      case rondo::Collective::reduce_scatter:
        return reduce_scatter();
      case rondo::Collective::alltoall:
        return alltoall();
      case rondo::Collective::gather:
        return gather();
      case rondo::Collective::scatter:
        return scatter();
    }
  }

 private:
  rondo_op** op() { return s_.blocking ? nullptr : &op_; }
  rondo_dtype dtype() const { return static_cast<rondo_dtype>(s_.dtype); }
  rondo_redop redop() const { return static_cast<rondo_redop>(s_.op); }
  size_t part(int32_t rank) const {
    return s_.vector_form ? (rank % 3 == 1 ? 0 : s_.count + static_cast<size_t>(rank)) : s_.count;
  }
  size_t before(int32_t rank) const {
    size_t sum = 0;
    for (int32_t r = 0; r < rank; ++r) sum += part(r);
    return sum;
  }
  size_t pair(int32_t from, int32_t to) const {
    return s_.vector_form ? ((from + to) % 4 == 1 ? 0 : s_.count + static_cast<size_t>(from)) : s_.count;
  }

  void finish(rondo_status status) {
    if (status == RONDO_OK && op_ != nullptr) {
      status = rondo_op_wait(op_, -1);
      rondo_op_free(op_);
    }
    notes_.expect(status == RONDO_OK,
                  fmt::format("rank {}: {}: {} {}", rank_, s_.words(), rondo_status_name(status), error_text(comm_)));
  }
  void check(const std::byte* got, const std::vector<std::byte>& wanted, const Buffer& buffer) {
    size_t i = 0;
    while (i < wanted.size() && got[i] == wanted[i]) ++i;
    notes_.expect(i == wanted.size(),
                  fmt::format("rank {}: {}: byte {} of {} is wrong", rank_, s_.words(), i, wanted.size()));
    notes_.expect(buffer.guards(), fmt::format("rank {}: {}: wrote outside the buffer", rank_, s_.words()));
  }
  static void put(std::byte* at, const std::vector<std::byte>& data) { std::copy(data.begin(), data.end(), at); }

  void allreduce() {
    const auto mine = values_.make(s_.count, rank_, s_.number);
    Buffer in(mine.size(), s_.misalign), out(mine.size(), s_.misalign);
    put(s_.in_place ? out.data : in.data, mine);
    finish(rondo_allreduce(comm_, s_.in_place ? out.data : in.data, out.data, s_.count, dtype(), redop(), op()));
    check(out.data, reduced(s_, s_.count, 0), out);
  }
  void reduce() {
    const auto mine = values_.make(s_.count, rank_, s_.number);
    Buffer in(mine.size(), s_.misalign), out(rank_ == s_.root ? mine.size() : 0, s_.misalign);
    put(in.data, mine);
    finish(rondo_reduce(comm_, in.data, out.data, s_.count, dtype(), redop(), s_.root, op()));
    if (rank_ == s_.root) check(out.data, reduced(s_, s_.count, 0), out);
    check(in.data, mine, in);
  }
  void broadcast() {
    const auto wanted = values_.make(s_.count, s_.root, s_.number);
    Buffer buf(wanted.size(), s_.misalign);
    if (rank_ == s_.root) put(buf.data, wanted);
    finish(rondo_broadcast(comm_, buf.data, s_.count, dtype(), s_.root, op()));
    check(buf.data, wanted, buf);
  }
  void allgather() {
    std::vector<std::byte> wanted;
    std::vector<size_t> counts;
    for (int32_t r = 0; r < s_.world; ++r) {
      const auto theirs = values_.make(part(r), r, s_.number);
      wanted.insert(wanted.end(), theirs.begin(), theirs.end());
      counts.push_back(part(r));
    }
    const auto mine = values_.make(part(rank_), rank_, s_.number);
    Buffer in(mine.size(), s_.misalign), out(wanted.size(), s_.misalign);
    std::byte* source = s_.in_place ? out.data + before(rank_) * size_ : in.data;
    put(source, mine);
    finish(s_.vector_form
               ? rondo_allgatherv(comm_, source, part(rank_), out.data, counts.data(), nullptr, dtype(), op())
               : rondo_allgather(comm_, source, out.data, s_.count, dtype(), op()));
    check(out.data, wanted, out);
  }
  void reduce_scatter() {
    std::vector<size_t> counts;
    for (int32_t r = 0; r < s_.world; ++r) counts.push_back(part(r));
    const size_t total = before(s_.world);
    const auto mine = values_.make(total, rank_, s_.number);
    Buffer in(mine.size(), s_.misalign), out(part(rank_) * size_, s_.misalign);
    put(in.data, mine);
    std::byte* result = s_.in_place ? in.data + before(rank_) * size_ : out.data;
    finish(s_.vector_form ? rondo_reduce_scatterv(comm_, in.data, result, counts.data(), dtype(), redop(), op())
                          : rondo_reduce_scatter(comm_, in.data, result, s_.count, dtype(), redop(), op()));
    check(result, reduced(s_, part(rank_), before(rank_)), s_.in_place ? in : out);
  }
  void alltoall() {
    std::vector<size_t> in_counts, out_counts;
    std::vector<std::byte> sent, wanted;
    for (int32_t r = 0; r < s_.world; ++r) {
      in_counts.push_back(pair(rank_, r));
      out_counts.push_back(pair(r, rank_));
      const auto to = values_.make(pair(rank_, r), rank_ * 100 + r, s_.number);
      const auto from = values_.make(pair(r, rank_), r * 100 + rank_, s_.number);
      sent.insert(sent.end(), to.begin(), to.end());
      wanted.insert(wanted.end(), from.begin(), from.end());
    }
    Buffer in(sent.size(), s_.misalign), out(wanted.size(), s_.misalign);
    put(in.data, sent);
    finish(s_.vector_form ? rondo_alltoallv(comm_, in.data, in_counts.data(), nullptr, out.data, out_counts.data(),
                                            nullptr, dtype(), op())
                          : rondo_alltoall(comm_, in.data, out.data, s_.count, dtype(), op()));
    check(out.data, wanted, out);
  }
  void gather() {
    std::vector<std::byte> wanted;
    for (int32_t r = 0; r < s_.world; ++r) {
      const auto theirs = values_.make(s_.count, r, s_.number);
      wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    }
    const auto mine = values_.make(s_.count, rank_, s_.number);
    Buffer in(mine.size(), s_.misalign), out(rank_ == s_.root ? wanted.size() : 0, s_.misalign);
    put(in.data, mine);
    finish(rondo_gather(comm_, in.data, out.data, s_.count, dtype(), s_.root, op()));
    if (rank_ == s_.root) check(out.data, wanted, out);
  }
  void scatter() {
    std::vector<std::byte> all;
    for (int32_t r = 0; r < s_.world; ++r) {
      const auto theirs = values_.make(s_.count, r, s_.number);
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    const auto wanted = values_.make(s_.count, rank_, s_.number);
    Buffer in(rank_ == s_.root ? all.size() : 0, s_.misalign), out(wanted.size(), s_.misalign);
    if (rank_ == s_.root) put(in.data, all);
    finish(rondo_scatter(comm_, in.data, out.data, s_.count, dtype(), s_.root, op()));
    check(out.data, wanted, out);
  }

  rondo_comm* comm_;
  int32_t rank_;
  Notes& notes_;
  Step s_;
  size_t size_;
  Values values_;
  rondo_op* op_ = nullptr;
};

// Each job takes its share of one long walk, so that worlds and algorithms meet different steps.
void cover(const char* transports, int fake_hosts, uint32_t steps_each) {
  uint32_t ran = 0, start = 0;
  for (int32_t world = 1; world <= 9; ++world) {
    for (const char* algorithm : kAlgorithms) {
      INFO("world " << world << " algorithm " << (algorithm ? algorithm : "(chosen)"));
      const std::string wrong =
          run_ranks({.world = world, .transports = transports, .fake_hosts = fake_hosts, .algorithm = algorithm},
                    [&](rondo_comm* comm, int32_t rank, Notes& notes) {
                      for (uint32_t i = 0; i < steps_each; ++i)
                        Runner(comm, rank, notes, step_of(start + i, world)).run();
                    });
      CHECK(wrong == "");
      start += steps_each;
      ran += steps_each;
    }
  }
  WARN("cases: " << ran << " calls on all ranks");
}

}  // namespace

TEST_CASE("library: a covering walk over shared memory, worlds 1 to 9") { cover("shm", 0, 36); }
TEST_CASE("library: a covering walk over tcp, worlds 1 to 9") { cover("tcp", 0, 24); }
TEST_CASE("library: a covering walk over mixed hosts, worlds 1 to 9") { cover(nullptr, 3, 24); }
