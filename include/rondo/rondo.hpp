// Rondo for C++17 and later: thin owners and typed calls over rondo.h, header only, so that no C++ type crosses the
// library's boundary. For user programs; the library itself does not use it. Contracts are those of the C functions of
// the same name; here the element type is deduced, lengths are checked, and a failure is thrown as rondo::Error.
//
//   rondo::Comm comm;                                  // joins the job the launcher describes
//   std::vector<float> gradient = ...;
//   comm.allreduce(gradient, gradient, RONDO_AVG);     // in place
//   rondo::Op op = comm.allreduce_start(a.data(), b.data(), a.size());
//   op.wait();
//
// Threads: as rondo.h says for the communicator; an Op, Buffer or Group object itself belongs to one thread at a time.
#ifndef RONDO_HPP
#define RONDO_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rondo/rondo.h"

namespace rondo {

// What every failed call throws: the status, and as what() its name and the cause in words.
class Error : public std::runtime_error {
 public:
  Error(rondo_status status, const std::string& text)
      : std::runtime_error(std::string(rondo_status_name(status)) + ": " + text), status_(status) {}
  rondo_status status() const noexcept { return status_; }

 private:
  rondo_status status_;
};

// The rondo_dtype of a C++ type: integers by size and sign, float and double. Specialise it for an own 16-bit or 8-bit
// floating type: template <> struct rondo::DTypeOf<Half> { static constexpr rondo_dtype value = RONDO_FLOAT16; };
template <class T, class = void>
struct DTypeOf;

template <class T>
struct DTypeOf<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8>> {
  static constexpr rondo_dtype of_size(rondo_dtype one, rondo_dtype two, rondo_dtype four, rondo_dtype eight) {
    return sizeof(T) == 1 ? one : sizeof(T) == 2 ? two : sizeof(T) == 4 ? four : eight;
  }
  static constexpr rondo_dtype value = std::is_signed_v<T>
                                           ? of_size(RONDO_INT8, RONDO_INT16, RONDO_INT32, RONDO_INT64)
                                           : of_size(RONDO_UINT8, RONDO_UINT16, RONDO_UINT32, RONDO_UINT64);
};
template <>
struct DTypeOf<float> {
  static constexpr rondo_dtype value = RONDO_FLOAT32;
};
template <>
struct DTypeOf<double> {
  static constexpr rondo_dtype value = RONDO_FLOAT64;
};
template <class T>
inline constexpr rondo_dtype dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

namespace detail {

inline std::string error_text(const rondo_comm* comm) {
  std::string text(rondo_error_text(comm, nullptr, 0), '\0');
  rondo_error_text(comm, text.data(), text.size() + 1);
  return text;
}

inline void check(rondo_status status, const rondo_comm* comm) {
  if (status != RONDO_OK) throw Error(status, error_text(comm));
}

inline void require(bool holds, const char* text) {
  if (!holds) throw Error(RONDO_ERR_INVALID, text);
}

// A contiguous range (vector, array, span, Buffer, C array) and its element type.
template <class R>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>;
template <class R>
using ValueOf = std::remove_cv_t<ElementOf<R>>;
template <class In, class Out>
using IfSameValue = std::enable_if_t<std::is_same_v<ValueOf<In>, ValueOf<Out>> && !std::is_const_v<ElementOf<Out>>>;

}  // namespace detail

// One started operation. The destructor waits for completion, because the buffers belong to Rondo until then; detach()
// gives that up. Empty after a move.
class Op {
 public:
  Op() = default;
  Op(rondo_op* op, std::weak_ptr<rondo_comm> comm) : op_(op), comm_(std::move(comm)) {}
  Op(Op&& other) noexcept : op_(std::exchange(other.op_, nullptr)), comm_(std::move(other.comm_)) {}
  Op& operator=(Op&& other) noexcept {
    if (this != &other) {
      finish();
      op_ = std::exchange(other.op_, nullptr);
      comm_ = std::move(other.comm_);
    }
    return *this;
  }
  ~Op() { finish(); }

  // The next call of a persistent operation.
  void start() const {
    const rondo_status status = rondo_start(op_);
    if (status != RONDO_OK) throw Error(status, detail::error_text(nullptr));
  }

  // True once completed; throws the operation's failure.
  bool test() { return settled(rondo_op_test(op_)); }

  void wait() { (void)settled(rondo_op_wait(op_, -1)); }

  // False when `timeout` has passed first, which breaks nothing.
  bool wait_for(std::chrono::nanoseconds timeout) {
    return settled(rondo_op_wait(op_, timeout.count() < 0 ? 0 : static_cast<int64_t>(timeout.count())));
  }

  // Gives up the handle without waiting; the buffers must stay valid until the operation has completed.
  void detach() noexcept { (void)rondo_op_free(std::exchange(op_, nullptr)); }

  rondo_op* get() const noexcept { return op_; }
  explicit operator bool() const noexcept { return op_ != nullptr; }

 private:
  bool settled(rondo_status status) const {
    if (status == RONDO_OK) return true;
    if (status == RONDO_IN_PROGRESS) return false;
    const std::shared_ptr<rondo_comm> comm = comm_.lock();
    throw Error(status, comm ? detail::error_text(comm.get()) : "the communicator has been destroyed");
  }
  void finish() noexcept {
    if (op_ == nullptr) return;
    (void)rondo_op_wait(op_, -1);
    detach();
  }

  rondo_op* op_ = nullptr;
  std::weak_ptr<rondo_comm> comm_;  // only for the text of a failure
};

// An array in memory that the ranks of this host share (rondo_alloc), zeroed. Keeps the communicator alive.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory holds plain values only");

 public:
  Buffer() = default;
  Buffer(std::shared_ptr<rondo_comm> comm, size_t count) : comm_(std::move(comm)), count_(count) {
    detail::require(count <= SIZE_MAX / sizeof(T), "buffer: the size in bytes overflows");
    void* memory = nullptr;
    detail::check(rondo_alloc(comm_.get(), count * sizeof(T), &memory), comm_.get());
    data_ = static_cast<T*>(memory);
  }
  Buffer(Buffer&& other) noexcept
      : comm_(std::move(other.comm_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) (void)rondo_free(comm_.get(), data_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return count_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + count_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + count_; }
  T& operator[](size_t index) noexcept { return data_[index]; }
  const T& operator[](size_t index) const noexcept { return data_[index]; }

 private:
  std::shared_ptr<rondo_comm> comm_;
  T* data_ = nullptr;
  size_t count_ = 0;
};

// Sends and receives between construction and end() start together and are waited for by end(). A destructor that ends
// the group itself drops its failure, as it may run during another exception.
class Group {
 public:
  explicit Group(std::shared_ptr<rondo_comm> comm) : comm_(std::move(comm)) {
    detail::check(rondo_group_begin(comm_.get()), comm_.get());
  }
  Group(Group&&) noexcept = default;
  Group& operator=(Group&&) = delete;
  ~Group() {
    if (comm_) (void)rondo_group_end(comm_.get());
  }
  void end() {
    const std::shared_ptr<rondo_comm> comm = std::move(comm_);
    comm_.reset();
    detail::require(comm != nullptr, "group: ended twice");
    detail::check(rondo_group_end(comm.get()), comm.get());
  }

 private:
  std::shared_ptr<rondo_comm> comm_;
};

// A communicator. Moves, does not copy; destroyed when it and every Buffer made from it are gone. Empty after a move,
// or from a split in which this rank took no part.
class Comm {
 public:
  // Joins the job; without options everything comes from the launcher's environment.
  explicit Comm(const rondo_options* options = nullptr) {
    rondo_comm* comm = nullptr;
    detail::check(rondo_init(options, &comm), nullptr);
    own(comm);
  }
  explicit Comm(const rondo_options& options) : Comm(&options) {}
  Comm(Comm&&) noexcept = default;
  Comm& operator=(Comm&&) noexcept = default;

  explicit operator bool() const noexcept { return comm_ != nullptr; }
  rondo_comm* get() const noexcept { return comm_.get(); }
  int32_t rank() const noexcept { return rondo_rank(get()); }
  int32_t world() const noexcept { return rondo_world(get()); }
  int32_t local_rank() const noexcept { return rondo_local_rank(get()); }
  int32_t local_world() const noexcept { return rondo_local_world(get()); }

  // The part of this communicator with the same color; empty for a negative color.
  Comm split(int32_t color, int32_t key = 0) const {
    rondo_comm* part = nullptr;
    check(rondo_split(get(), color, key, &part));
    Comm result{Empty{}};
    if (part != nullptr) result.own(part);
    return result;
  }

  template <class T>
  Buffer<T> alloc(size_t count) const {
    return Buffer<T>(comm_, count);
  }
  Group group() const { return Group(comm_); }

  void abort(const char* why = nullptr) const { check(rondo_abort(get(), why)); }
  void revoke() const { check(rondo_revoke(get())); }
  rondo_status health() const noexcept { return rondo_health(get()); }
  std::string error_text() const { return detail::error_text(get()); }
  std::string explain(const char* collective, size_t bytes, rondo_dtype dtype) const {
    std::string text(rondo_explain(get(), collective, bytes, dtype, nullptr, 0), '\0');
    rondo_explain(get(), collective, bytes, dtype, text.data(), text.size() + 1);
    return text;
  }

  // ---- collectives on pointers; counts as in the C call of the same name ----
  template <class T>
  void allreduce(const T* in, T* out, size_t count, rondo_redop redop = RONDO_SUM) const {
    check(rondo_allreduce(get(), in, out, count, dtype_of<T>, redop, nullptr));
  }
  template <class T>
  void reduce(const T* in, T* out, size_t count, rondo_redop redop, int32_t root) const {
    check(rondo_reduce(get(), in, out, count, dtype_of<T>, redop, root, nullptr));
  }
  template <class T>
  void broadcast(T* buffer, size_t count, int32_t root) const {
    check(rondo_broadcast(get(), buffer, count, dtype_of<T>, root, nullptr));
  }
  template <class T>
  void allgather(const T* in, T* out, size_t count_per_rank) const {
    check(rondo_allgather(get(), in, out, count_per_rank, dtype_of<T>, nullptr));
  }
  template <class T>
  void allgatherv(const T* in, size_t in_count, T* out, const size_t* counts, const size_t* displs = nullptr) const {
    check(rondo_allgatherv(get(), in, in_count, out, counts, displs, dtype_of<T>, nullptr));
  }
  template <class T>
  void reduce_scatter(const T* in, T* out, size_t out_count, rondo_redop redop = RONDO_SUM) const {
    check(rondo_reduce_scatter(get(), in, out, out_count, dtype_of<T>, redop, nullptr));
  }
  template <class T>
  void reduce_scatterv(const T* in, T* out, const size_t* counts, rondo_redop redop = RONDO_SUM) const {
    check(rondo_reduce_scatterv(get(), in, out, counts, dtype_of<T>, redop, nullptr));
  }
  template <class T>
  void alltoall(const T* in, T* out, size_t count_per_pair) const {
    check(rondo_alltoall(get(), in, out, count_per_pair, dtype_of<T>, nullptr));
  }
  template <class T>
  void alltoallv(const T* in, const size_t* in_counts, const size_t* in_displs, T* out, const size_t* out_counts,
                 const size_t* out_displs) const {
    check(rondo_alltoallv(get(), in, in_counts, in_displs, out, out_counts, out_displs, dtype_of<T>, nullptr));
  }
  template <class T>
  void gather(const T* in, T* out, size_t count, int32_t root) const {
    check(rondo_gather(get(), in, out, count, dtype_of<T>, root, nullptr));
  }
  template <class T>
  void scatter(const T* in, T* out, size_t count, int32_t root) const {
    check(rondo_scatter(get(), in, out, count, dtype_of<T>, root, nullptr));
  }
  void barrier() const { check(rondo_barrier(get(), nullptr)); }

  // ---- point to point; inside a Group these only start ----
  template <class T>
  void send(const T* buffer, size_t count, int32_t peer, int64_t tag = 0) const {
    check(rondo_send_tag(get(), buffer, count, dtype_of<T>, peer, tag, nullptr));
  }
  template <class T>
  void recv(T* buffer, size_t count, int32_t peer, int64_t tag = 0) const {
    check(rondo_recv_tag(get(), buffer, count, dtype_of<T>, peer, tag, nullptr));
  }

  // ---- the same, started and not waited for ----
  template <class T>
  Op allreduce_start(const T* in, T* out, size_t count, rondo_redop redop = RONDO_SUM) const {
    return start([&](rondo_op** op) { return rondo_allreduce(get(), in, out, count, dtype_of<T>, redop, op); });
  }
  template <class T>
  Op reduce_start(const T* in, T* out, size_t count, rondo_redop redop, int32_t root) const {
    return start([&](rondo_op** op) { return rondo_reduce(get(), in, out, count, dtype_of<T>, redop, root, op); });
  }
  template <class T>
  Op broadcast_start(T* buffer, size_t count, int32_t root) const {
    return start([&](rondo_op** op) { return rondo_broadcast(get(), buffer, count, dtype_of<T>, root, op); });
  }
  template <class T>
  Op allgather_start(const T* in, T* out, size_t count_per_rank) const {
    return start([&](rondo_op** op) { return rondo_allgather(get(), in, out, count_per_rank, dtype_of<T>, op); });
  }
  template <class T>
  Op allgatherv_start(const T* in, size_t in_count, T* out, const size_t* counts,
                      const size_t* displs = nullptr) const {
    return start(
        [&](rondo_op** op) { return rondo_allgatherv(get(), in, in_count, out, counts, displs, dtype_of<T>, op); });
  }
  template <class T>
  Op reduce_scatter_start(const T* in, T* out, size_t out_count, rondo_redop redop = RONDO_SUM) const {
    return start(
        [&](rondo_op** op) { return rondo_reduce_scatter(get(), in, out, out_count, dtype_of<T>, redop, op); });
  }
  template <class T>
  Op reduce_scatterv_start(const T* in, T* out, const size_t* counts, rondo_redop redop = RONDO_SUM) const {
    return start([&](rondo_op** op) { return rondo_reduce_scatterv(get(), in, out, counts, dtype_of<T>, redop, op); });
  }
  template <class T>
  Op alltoall_start(const T* in, T* out, size_t count_per_pair) const {
    return start([&](rondo_op** op) { return rondo_alltoall(get(), in, out, count_per_pair, dtype_of<T>, op); });
  }
  template <class T>
  Op alltoallv_start(const T* in, const size_t* in_counts, const size_t* in_displs, T* out, const size_t* out_counts,
                     const size_t* out_displs) const {
    return start([&](rondo_op** op) {
      return rondo_alltoallv(get(), in, in_counts, in_displs, out, out_counts, out_displs, dtype_of<T>, op);
    });
  }
  template <class T>
  Op gather_start(const T* in, T* out, size_t count, int32_t root) const {
    return start([&](rondo_op** op) { return rondo_gather(get(), in, out, count, dtype_of<T>, root, op); });
  }
  template <class T>
  Op scatter_start(const T* in, T* out, size_t count, int32_t root) const {
    return start([&](rondo_op** op) { return rondo_scatter(get(), in, out, count, dtype_of<T>, root, op); });
  }
  Op barrier_start() const {
    return start([&](rondo_op** op) { return rondo_barrier(get(), op); });
  }
  template <class T>
  Op send_start(const T* buffer, size_t count, int32_t peer, int64_t tag = 0) const {
    return start([&](rondo_op** op) { return rondo_send_tag(get(), buffer, count, dtype_of<T>, peer, tag, op); });
  }
  template <class T>
  Op recv_start(T* buffer, size_t count, int32_t peer, int64_t tag = 0) const {
    return start([&](rondo_op** op) { return rondo_recv_tag(get(), buffer, count, dtype_of<T>, peer, tag, op); });
  }

  // ---- the same as persistent operations: Op::start() begins a call, Op::wait() ends it ----
  template <class T>
  Op allreduce_init(const T* in, T* out, size_t count, rondo_redop redop,
                    const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_allreduce_init(get(), in, out, count, dtype_of<T>, redop, &options, op); });
  }
  template <class T>
  Op reduce_init(const T* in, T* out, size_t count, rondo_redop redop, int32_t root,
                 const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) {
      return rondo_reduce_init(get(), in, out, count, dtype_of<T>, redop, root, &options, op);
    });
  }
  template <class T>
  Op broadcast_init(T* buffer, size_t count, int32_t root,
                    const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_broadcast_init(get(), buffer, count, dtype_of<T>, root, &options, op); });
  }
  template <class T>
  Op allgather_init(const T* in, T* out, size_t count_per_rank,
                    const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_allgather_init(get(), in, out, count_per_rank, dtype_of<T>, &options, op); });
  }
  template <class T>
  Op allgatherv_init(const T* in, size_t in_count, T* out, const size_t* counts, const size_t* displs,
                     const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) {
      return rondo_allgatherv_init(get(), in, in_count, out, counts, displs, dtype_of<T>, &options, op);
    });
  }
  template <class T>
  Op reduce_scatter_init(const T* in, T* out, size_t out_count, rondo_redop redop,
                         const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) {
      return rondo_reduce_scatter_init(get(), in, out, out_count, dtype_of<T>, redop, &options, op);
    });
  }
  template <class T>
  Op reduce_scatterv_init(const T* in, T* out, const size_t* counts, rondo_redop redop,
                          const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) {
      return rondo_reduce_scatterv_init(get(), in, out, counts, dtype_of<T>, redop, &options, op);
    });
  }
  template <class T>
  Op alltoall_init(const T* in, T* out, size_t count_per_pair,
                   const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_alltoall_init(get(), in, out, count_per_pair, dtype_of<T>, &options, op); });
  }
  template <class T>
  Op alltoallv_init(const T* in, const size_t* in_counts, const size_t* in_displs, T* out, const size_t* out_counts,
                    const size_t* out_displs, const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) {
      return rondo_alltoallv_init(get(), in, in_counts, in_displs, out, out_counts, out_displs, dtype_of<T>, &options,
                                  op);
    });
  }
  template <class T>
  Op gather_init(const T* in, T* out, size_t count, int32_t root,
                 const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_gather_init(get(), in, out, count, dtype_of<T>, root, &options, op); });
  }
  template <class T>
  Op scatter_init(const T* in, T* out, size_t count, int32_t root,
                  const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start(
        [&](rondo_op** op) { return rondo_scatter_init(get(), in, out, count, dtype_of<T>, root, &options, op); });
  }
  Op barrier_init(const rondo_call_options& options = RONDO_CALL_OPTIONS_INIT) const {
    return start([&](rondo_op** op) { return rondo_barrier_init(get(), &options, op); });
  }

  // ---- on contiguous ranges (vector, array, span, Buffer); the lengths are checked against each other ----
  template <class In, class Out, class = detail::IfSameValue<const In, Out>>
  void allreduce(const In& in, Out&& out, rondo_redop redop = RONDO_SUM) const {
    detail::require(std::size(in) == std::size(out), "allreduce: in and out have different lengths");
    allreduce<detail::ValueOf<Out>>(std::data(in), std::data(out), std::size(in), redop);
  }
  template <class R, class = std::enable_if_t<!std::is_const_v<detail::ElementOf<R>>>>
  void broadcast(R&& range, int32_t root) const {
    broadcast<detail::ValueOf<R>>(std::data(range), std::size(range), root);
  }
  template <class In, class Out, class = detail::IfSameValue<const In, Out>>
  void allgather(const In& in, Out&& out) const {
    detail::require(std::size(out) == std::size(in) * ranks(), "allgather: out is not world times as long as in");
    allgather<detail::ValueOf<Out>>(std::data(in), std::data(out), std::size(in));
  }
  template <class In, class Out, class = detail::IfSameValue<const In, Out>>
  void reduce_scatter(const In& in, Out&& out, rondo_redop redop = RONDO_SUM) const {
    detail::require(std::size(in) == std::size(out) * ranks(), "reduce_scatter: in is not world times as long as out");
    reduce_scatter<detail::ValueOf<Out>>(std::data(in), std::data(out), std::size(out), redop);
  }
  template <class In, class Out, class = detail::IfSameValue<const In, Out>>
  void alltoall(const In& in, Out&& out) const {
    detail::require(std::size(in) == std::size(out) && std::size(in) % ranks() == 0,
                    "alltoall: in and out must have one length, a multiple of world");
    alltoall<detail::ValueOf<Out>>(std::data(in), std::data(out), std::size(in) / ranks());
  }
  template <class R, class = detail::ElementOf<const R>>
  void send(const R& range, int32_t peer, int64_t tag = 0) const {
    send<detail::ValueOf<const R>>(std::data(range), std::size(range), peer, tag);
  }
  template <class R, class = std::enable_if_t<!std::is_const_v<detail::ElementOf<R>>>>
  void recv(R&& range, int32_t peer, int64_t tag = 0) const {
    recv<detail::ValueOf<R>>(std::data(range), std::size(range), peer, tag);
  }

 private:
  struct Empty {};
  explicit Comm(Empty) {}

  void own(rondo_comm* comm) {
    comm_ = std::shared_ptr<rondo_comm>(comm, [](rondo_comm* owned) { (void)rondo_destroy(owned); });
  }
  void check(rondo_status status) const { detail::check(status, get()); }
  size_t ranks() const { return static_cast<size_t>(world()); }
  template <class Call>
  Op start(Call call) const {
    rondo_op* op = nullptr;
    check(call(&op));
    return Op(op, comm_);
  }

  std::shared_ptr<rondo_comm> comm_;
};

}  // namespace rondo

#endif
