#include "algo/registry.h"

#include <array>

// One line per algorithm; each is defined in the file of its name.
#define RONDO_EACH_ALGORITHM(X)   \
  X(allreduce_ring)               \
  X(allreduce_direct)             \
  X(allreduce_oneshot)            \
  X(allreduce_owners)             \
  X(allreduce_claims)             \
  X(allreduce_recursive_doubling) \
  X(allreduce_halving_doubling)   \
  X(allreduce_tree)               \
  X(reduce_binomial)              \
  X(reduce_ring)                  \
  X(reduce_direct)                \
  X(broadcast_binomial)           \
  X(broadcast_chain)              \
  X(broadcast_scatter_allgather)  \
  X(broadcast_flat)               \
  X(broadcast_workspace)          \
  X(allgather_ring)               \
  X(allgather_bruck)              \
  X(allgather_direct)             \
  X(allgather_workspace)          \
  X(reduce_scatter_ring)          \
  X(reduce_scatter_direct)        \
  X(reduce_scatter_workspace)     \
  X(alltoall_pairwise)            \
  X(alltoall_workspace)           \
  X(gather_linear)                \
  X(gather_binomial)              \
  X(scatter_linear)               \
  X(scatter_binomial)             \
  X(barrier_dissemination)        \
  X(barrier_flat)                 \
  X(barrier_workspace)

namespace rondo {
namespace algo {
#define RONDO_DECLARE(name) extern const Algorithm name;
RONDO_EACH_ALGORITHM(RONDO_DECLARE)
#undef RONDO_DECLARE
}  // namespace algo

std::span<const Algorithm> algorithms() {
#define RONDO_ROW(name) algo::name,
  static const std::array table = {RONDO_EACH_ALGORITHM(RONDO_ROW)};
#undef RONDO_ROW
  return table;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  return nullptr;
}

}  // namespace rondo
