#include "perf/job.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

namespace rondo::perf {
namespace {

constexpr size_t kAlignment = 4096;

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  std::stringstream list(text);
  for (std::string word; std::getline(list >> std::ws, word, ',');) found.push_back(word);
  return found;
}

}  // namespace

ErrorText failure(const rondo_comm* comm, rondo_status status, const std::string& what) {
  std::string text(rondo_error_text(comm, nullptr, 0), '\0');
  rondo_error_text(comm, text.data(), text.size() + 1);
  return fmt::format("{}: {}: {}", what, rondo_status_name(status), text);
}

ErrorText Job::init(const Options& options, const std::string& wanted_algorithm, rondo_options& wanted) {
  std::string algorithm = wanted_algorithm;
  if (!algorithm.empty() && algorithm.find(':') == std::string::npos) {
    algorithm.clear();
    for (Kind kind : options.kinds) {
      if (kind == Kind::sendrecv) continue;
      algorithm += fmt::format("{}{}:{}", algorithm.empty() ? "" : ";", info(kind).name, wanted_algorithm);
    }
  }
  if (!algorithm.empty()) wanted.algorithm = algorithm.c_str();
  if (options.tune) wanted.config = "RONDO_TUNE=off";
  if (!options.transports.empty()) wanted.transports = options.transports.c_str();
  rondo_comm* comm = nullptr;
  const rondo_status status = rondo_init(&wanted, &comm);
  if (status != RONDO_OK) return failure(nullptr, status, "init");
  comm_.reset(comm);
  return {};
}

ErrorText Job::join(const Options& options) {
  rondo_options wanted = RONDO_OPTIONS_INIT;
  return init(options, options.algorithm, wanted);
}

ErrorText Job::join_beside(const Job& first, const Options& options, const std::string& algorithm, int number) {
  int64_t meeting[2] = {getpid(), std::chrono::steady_clock::now().time_since_epoch().count()};
  const rondo_status status = rondo_broadcast(first.comm(), meeting, 2, RONDO_INT64, 0, nullptr);
  if (status != RONDO_OK) return failure(first.comm(), status, "broadcast of a rendezvous");
  const std::string rendezvous = fmt::format("unix://rondo-perf-{}-{}-{}", meeting[0], meeting[1], number);
  rondo_options wanted = RONDO_OPTIONS_INIT;
  wanted.rank = static_cast<int32_t>(first.rank());
  wanted.world = static_cast<int32_t>(first.world());
  wanted.rendezvous = rendezvous.c_str();
  if (ErrorText text = init(options, algorithm, wanted); !text.empty()) return text;
  if (options.shared_memory) return {};
  in_ = first.in_;
  out_ = first.out_;
  return {};
}

ErrorText Job::make_buffer(size_t bytes, bool shared_memory, std::shared_ptr<void>& buffer) const {
  bytes = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
  void* memory = nullptr;
  if (shared_memory) {
    const rondo_status status = rondo_alloc(comm(), bytes, &memory);
    if (status != RONDO_OK) return failure(comm(), status, fmt::format("alloc of {} bytes", bytes));
    rondo_comm* owner = comm();
    buffer = std::shared_ptr<void>(memory, [owner](void* held) { (void)rondo_free(owner, held); });
  } else {
    memory = std::aligned_alloc(kAlignment, bytes);
    if (memory == nullptr) return fmt::format("no memory for a buffer of {} bytes", bytes);
    buffer = std::shared_ptr<void>(memory, std::free);
  }
  std::memset(memory, 0, bytes);
  return {};
}

ErrorText Job::allocate(size_t in_bytes, size_t out_bytes, bool shared_memory) {
  if (ErrorText text = make_buffer(in_bytes, shared_memory, in_); !text.empty()) return text;
  return make_buffer(out_bytes, shared_memory, out_);
}

std::string Job::explain(const Call& call) const {
  const size_t bytes = call.count * rondo_dtype_size(call.dtype);
  std::string text(rondo_explain(comm(), info(call.kind).name, bytes, call.dtype, nullptr, 0), '\0');
  rondo_explain(comm(), info(call.kind).name, bytes, call.dtype, text.data(), text.size() + 1);
  return text;
}

std::string Job::algorithm_of(const Call& call) const {
  if (call.kind == Kind::sendrecv) return "point to point";
  const std::string text = explain(call);
  return text.substr(0, text.find('\n'));
}

std::string Job::explained(const Call& call, std::string_view mark) const {
  if (call.kind == Kind::sendrecv) return {};
  const std::string text = explain(call);
  const size_t begin = text.find(mark);
  if (begin == std::string::npos) return {};
  return text.substr(begin + mark.size(), text.find('\n', begin + mark.size()) - begin - mark.size());
}

std::vector<std::string> Job::alternatives_to(const Call& call) const {
  return words(explained(call, "\n  also possible: "));
}

std::vector<std::string> Job::tunable(const Call& call) const {
  return words(explained(call, "\n  tuning may take: "));
}

std::string Job::tuning_section(const Call& call) const {
  const std::string bracketed = explained(call, "\n  tuning section: ");
  return bracketed.size() < 2 ? "" : bracketed.substr(1, bracketed.size() - 2);
}

ErrorText Job::combine(Kind measured, rondo_redop redop, std::vector<int64_t>& values) const {
  if (world() == 1 || values.empty()) return {};
  if (measured != Kind::allreduce) {
    const rondo_status status =
        rondo_allreduce(comm(), values.data(), values.data(), values.size(), RONDO_INT64, redop, nullptr);
    return status == RONDO_OK ? ErrorText() : failure(comm(), status, "allreduce of the measurements");
  }
  std::vector<int64_t> all(values.size() * world());
  const rondo_status status = rondo_allgather(comm(), values.data(), all.data(), values.size(), RONDO_INT64, nullptr);
  if (status != RONDO_OK) return failure(comm(), status, "allgather of the measurements");
  for (size_t index = 0; index < values.size(); ++index) {
    int64_t result = all[index];
    for (size_t rank = 1; rank < world(); ++rank) {
      const int64_t other = all[rank * values.size() + index];
      result = redop == RONDO_MAX ? std::max(result, other) : result + other;
    }
    values[index] = result;
  }
  return {};
}

}  // namespace rondo::perf
