#include "sched/verify.h"

#include "sched/verify_run.h"

namespace rondo {
namespace {

constexpr uint64_t kCellsMax = 1ull << 28;
constexpr uint64_t kValuesMax = 1ull << 30;

Status check_alike(std::span<const Schedule> all) {
  if (all.empty()) return fail(Code::invalid, "no schedules");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Schedule& s = all[rank];
    RONDO_TRY(check_structure(s));
    if (s.rank != rank) return fail(Code::invalid, "the schedule at place {} is that of rank {}", rank, s.rank);
    if (s.world != all.size())
      return fail(Code::invalid, "rank {}: a world of {}, but {} schedules", rank, s.world, all.size());
    if (s.collective != all[0].collective || s.root != all[0].root || s.chunks != all[0].chunks ||
        s.lanes != all[0].lanes)
      return fail(Code::invalid, "rank {}: {} root {} chunks {} lanes {}, but rank 0: {} root {} chunks {} lanes {}",
                  rank, name(s.collective), s.root, s.chunks, s.lanes, name(all[0].collective), all[0].root,
                  all[0].chunks, all[0].lanes);
  }
  return {};
}

Status check_size(std::span<const Schedule> all, const VerifyOptions& options) {
  if (options.slices == 0 || options.slices > 65535 || options.window == 0 || options.operations_in_flight == 0 ||
      options.operations_in_flight > 8)
    return fail(Code::invalid, "{} slices, window {}, {} operations in flight", options.slices, options.window,
                options.operations_in_flight);
  uint64_t cells = 0;
  for (const Schedule& s : all) cells += 2ull * s.chunks + s.scratch.size();
  cells *= static_cast<uint64_t>(options.slices) * options.operations_in_flight;
  const uint64_t values = static_cast<uint64_t>(all.size()) * all[0].chunks;
  if (all.size() > 65535 || cells > kCellsMax || values > kValuesMax)
    return fail(Code::unsupported, "{} ranks with {} chunks in {} slices are too many to verify", all.size(),
                all[0].chunks, options.slices);
  if (options.in_place && !has_in_place_form(all[0].collective))
    return fail(Code::unsupported, "{} has no in-place form", name(all[0].collective));
  return {};
}

}  // namespace

Status verify(std::span<const Schedule> all_ranks, const VerifyOptions& options) {
  RONDO_TRY(check_alike(all_ranks));
  RONDO_TRY(check_size(all_ranks, options));
  for (const Schedule& schedule : all_ranks) RONDO_TRY(check_races(schedule, options.in_place));
  Values values(all_ranks[0].world, all_ranks[0].chunks);
  for (const SendModel sends : {SendModel::buffered, SendModel::held, SendModel::whole}) {
    RONDO_TRY(VerifyRun(all_ranks, options, {.sends = sends}, values).run());
    for (uint32_t i = 0; i < options.random_orders; ++i)
      RONDO_TRY(
          VerifyRun(all_ranks, options, {.sends = sends, .random = true, .seed = options.seed + i}, values).run());
  }
  return {};
}

}  // namespace rondo
