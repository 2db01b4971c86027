#include "train/group.h"

#include <fmt/core.h>

namespace rondo::train {

namespace {

std::string error_text(const rondo_comm* comm) {
  std::string text(rondo_error_text(comm, nullptr, 0) + 1, '\0');
  const size_t length = rondo_error_text(comm, text.data(), text.size());
  text.resize(std::min(length, text.size() - 1));
  return text;
}

}  // namespace

Status Group::check(rondo_status status, const char* what) const {
  if (status == RONDO_OK) return {};
  return {Fault::comm, fmt::format("{}: {} ({})", what, error_text(comm_), rondo_status_name(status))};
}

Result<std::unique_ptr<Group>> Group::join(const GroupOptions& options) {
  // A bare name is meant for the gradients; said for every collective it would be an error where one does not have it.
  const bool full_form = options.algorithm.find(':') != std::string::npos;
  const std::string algorithm = full_form ? options.algorithm : "allreduce:" + options.algorithm;
  rondo_options settings = RONDO_OPTIONS_INIT;
  settings.rank = options.rank;
  settings.world = options.world;
  if (!options.rendezvous.empty()) settings.rendezvous = options.rendezvous.c_str();
  if (!options.algorithm.empty()) settings.algorithm = algorithm.c_str();
  rondo_comm* comm = nullptr;
  const rondo_status status = rondo_init(&settings, &comm);
  if (status != RONDO_OK) {
    return Status(Fault::comm, fmt::format("init: {} ({})", error_text(nullptr), rondo_status_name(status)));
  }
  return std::unique_ptr<Group>(new Group(comm));
}

Status Group::sum(std::span<double> values) {
  return check(rondo_allreduce(comm_, values.data(), values.data(), values.size(), RONDO_FLOAT64, RONDO_SUM, nullptr),
               "allreduce of sums");
}

Status Group::minimum(uint64_t& value) {
  return check(rondo_allreduce(comm_, &value, &value, 1, RONDO_UINT64, RONDO_MIN, nullptr), "allreduce of a minimum");
}

Status Group::broadcast(std::span<float> values, size_t root) {
  return check(rondo_broadcast(comm_, values.data(), values.size(), RONDO_FLOAT32, static_cast<int32_t>(root), nullptr),
               "broadcast");
}

Result<std::vector<uint64_t>> Group::gather(uint64_t mine) {
  std::vector<uint64_t> all(world());
  const rondo_status status = rondo_allgather(comm_, &mine, all.data(), 1, RONDO_UINT64, nullptr);
  if (status != RONDO_OK) return check(status, "allgather");
  return all;
}

Result<rondo_op*> Group::start_average(std::span<float> values) {
  rondo_op* op = nullptr;
  const rondo_status status =
      rondo_allreduce(comm_, values.data(), values.data(), values.size(), RONDO_FLOAT32, RONDO_AVG, &op);
  if (status != RONDO_OK) return check(status, "allreduce of gradients");
  return op;
}

Status Group::poll(rondo_op* op) {
  const rondo_status status = rondo_op_test(op);
  return status == RONDO_IN_PROGRESS ? Status() : check(status, "allreduce of gradients");
}

Status Group::wait(rondo_op* op) {
  // No limit of its own: the communicator's time-out ends a wait that makes no progress.
  const rondo_status status = rondo_op_wait(op, -1);
  const Status outcome = check(status, "allreduce of gradients");
  rondo_op_free(op);
  return outcome;
}

Result<std::span<float>> Group::allocate_floats(size_t count) {
  void* memory = nullptr;
  const rondo_status status = rondo_alloc(comm_, count * sizeof(float), &memory);
  if (status != RONDO_OK) return check(status, "alloc of gradients");
  return std::span<float>(static_cast<float*>(memory), count);
}

Result<std::unique_ptr<GroupFloats>> GroupFloats::create(Group& group, size_t count) {
  Result<std::span<float>> floats = group.allocate_floats(count);
  if (!floats.ok()) return floats.status();
  return std::unique_ptr<GroupFloats>(new GroupFloats(group, floats.value()));
}

}  // namespace rondo::train
