#include "base/launcher.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace rondo {
namespace {

// The four variables in which a launcher numbers its ranks.
struct Family {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

constexpr uint32_t kProbedPorts = 16;  // above the port of a probe:// rendezvous

constexpr std::array<Family, 5> kFamilies = {{
    {"horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
}};

// A number that all ranks of a job derive equally; FNV-1a, which needs no seed and spreads short texts well enough.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos || host.front() == '[' ? host : "[" + host + "]";
}

std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<uint32_t> required_number(const char* name, const std::string& text) {
  if (const auto value = number(text)) return *value;
  return fail(Code::invalid, "{}={}: expected a whole number", name, text);
}

std::optional<uint32_t> optional_number(const Config& config, const char* name) {
  const auto text = name ? config.foreign(name) : std::nullopt;
  return text ? number(*text) : std::nullopt;
}

std::optional<uint32_t> configured(const Config& config, Key key) {
  if (!config.given(key)) return std::nullopt;
  return static_cast<uint32_t>(config.integer(key));
}

Status check_range(const Placement& placed, const char* rank_name, const char* world_name) {
  if (placed.world > 0 && placed.rank < placed.world) return {};
  return fail(Code::invalid, "{}={} with {}={}: a rank lies between 0 and the world less 1", rank_name, placed.rank,
              world_name, placed.world);
}

Result<Placement> own_placement(const Config& config) {
  const auto rank = configured(config, Key::rank), world = configured(config, Key::world);
  if (!rank || !world)
    return fail(Code::invalid, "{} is given without {}", info(rank ? Key::rank : Key::world).name,
                info(rank ? Key::world : Key::rank).name);
  Placement placed{.rank = *rank,
                   .world = *world,
                   .local_rank = configured(config, Key::local_rank),
                   .local_world = configured(config, Key::local_world),
                   .family = config.source(Key::rank) >= Source::options_config ? "options" : "rondo",
                   .rendezvous = ""};
  RONDO_TRY(check_range(placed, info(Key::rank).name, info(Key::world).name));
  return placed;
}

Result<Placement> family_placement(const Config& config, const Family& family, const std::string& rank_text,
                                   const std::string& world_text) {
  const auto rank = required_number(family.rank, rank_text);
  if (!rank.ok()) return rank.status();
  const auto world = required_number(family.world, world_text);
  if (!world.ok()) return world.status();
  Placement placed{.rank = rank.value(),
                   .world = world.value(),
                   .local_rank = optional_number(config, family.local_rank),
                   .local_world = optional_number(config, family.local_world),
                   .family = family.name,
                   .rendezvous = ""};
  RONDO_TRY(check_range(placed, family.rank, family.world));
  return placed;
}

bool on_one_host(const Config& config, const Placement& placed) {
  if (placed.family == "slurm")
    return (optional_number(config, "SLURM_STEP_NUM_NODES")
                .value_or(optional_number(config, "SLURM_NNODES").value_or(0))) == 1;
  return placed.local_world == placed.world;
}

// The variables that tell one job of a family from another on the same host.
std::string job_text(const Config& config, const Placement& placed, int64_t parent) {
  const auto joined = [&](std::initializer_list<const char*> names) {
    std::string text;
    for (const char* name : names) text += config.foreign(name).value_or("") + '\n';
    return text;
  };
  if (placed.family == "horovod") return joined({"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"});
  if (placed.family == "torchrun")
    return joined({"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"});
  if (placed.family == "open mpi") return joined({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI2"});
  if (placed.family == "slurm") return joined({"SLURM_JOB_ID", "SLURM_STEP_ID"});
  return fmt::format("{}\n", parent);
}

// Several hosts: an address that all ranks can derive and where rank 0 can listen, or empty.
std::string remote_meeting(const Config& config, const Placement& placed, const std::string& job) {
  if (placed.family == "torchrun") {
    const auto host = config.foreign("MASTER_ADDR");
    const auto port = optional_number(config, "MASTER_PORT");
    // The port itself usually belongs to torchrun's own store; the ones above it are probed, and the job's number in
    // the handshake tells which of them is ours.
    if (host && port && *port > 0 && *port + kProbedPorts <= 65535)
      return fmt::format("probe://{}:{}/{:016x}", bracketed(*host), *port, hash_of(job));
  }
  if (placed.family == "slurm") {
    const std::string host = first_slurm_host(config.foreign("SLURM_STEP_NODELIST").value_or(""));
    // Below the ephemeral ports, and spread so that jobs on one node rarely meet.
    if (!host.empty()) return fmt::format("tcp://{}:{}", host, 20000 + hash_of(job) % 10000);
  }
  return "";
}

std::string meeting(const Config& config, const Placement& placed, uint32_t user, int64_t parent) {
  if (config.given(Key::rendezvous)) return config.text(Key::rendezvous);
  if (placed.world == 1 || placed.family == "rondo" || placed.family == "options") return "";
  const std::string job = job_text(config, placed, parent);
  if (on_one_host(config, placed))
    return fmt::format("unix://rondo-{}-{:016x}", user, hash_of(placed.family + '\n' + job));
  return remote_meeting(config, placed, job);
}

Result<Placement> numbered(const Config& config) {
  if (config.given(Key::rank) || config.given(Key::world)) return own_placement(config);
  for (const Family& family : kFamilies) {
    const auto rank = config.foreign(family.rank), world = config.foreign(family.world);
    if (rank && world) return family_placement(config, family, *rank, *world);
  }
  if (const auto rank = config.foreign("PMIX_RANK"))
    return fail(Code::invalid,
                "PMIX_RANK={} is set, and no variable tells the number of ranks; RONDO_RANK and RONDO_WORLD do", *rank);
  Placement alone;
  alone.family = "none";
  return alone;
}

}  // namespace

std::string first_slurm_host(const std::string& list) {
  const size_t end = list.find_first_of("[,");
  const std::string prefix = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return prefix;
  const size_t close = list.find(']', end);
  if (close == std::string::npos) return "";
  const std::string inside = list.substr(end + 1, close - end - 1);
  const std::string first = inside.substr(0, inside.find_first_of(",-"));
  if (first.empty() || first.find_first_not_of("0123456789") != std::string::npos) return "";
  const size_t rest = list.find(',', close);
  return prefix + first + list.substr(close + 1, rest == std::string::npos ? rest : rest - close - 1);
}

Result<Placement> placement(const Config& config, uint32_t user, int64_t parent) {
  auto placed = numbered(config);
  if (!placed.ok()) return placed;
  placed->rendezvous = meeting(config, *placed, user, parent);
  return placed;
}

}  // namespace rondo
