#include "capi/settings.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace rondo::capi {
namespace {

// The caller's struct may be older (shorter): what it lacks keeps its default. `least`: the bytes of the oldest one.
template <class Options>
Result<Options> known_part(const Options* given, Options known, size_t least, const char* what, const char* type) {
  if (given == nullptr) return known;
  if (given->size < least || given->size > 4096)
    return fail(Code::invalid, "{}.size is {}, expected sizeof({}) = {}; start from its _INIT", what, given->size, type,
                sizeof known);
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

Status take(Config& config, Key key, const char* value) {
  if (value == nullptr) return {};
  return config.set(key, value, Source::options);
}

Status apply(const rondo_options& options, Config& config) {
  if (options.world == 0 || options.world < -1)
    return fail(Code::invalid, "options.world is {}, expected at least 1, or -1 for the environment's", options.world);
  if (options.rank < -1) return fail(Code::invalid, "options.rank is {}, expected at least 0, or -1", options.rank);
  if ((options.rank == -1) != (options.world == -1))
    return fail(Code::invalid, "options.rank is {} and options.world is {}: give both or neither", options.rank,
                options.world);
  if (options.world > 0) {
    if (options.rank >= options.world)
      return fail(Code::invalid, "options.rank {} is out of range, the world has {} ranks", options.rank,
                  options.world);
    RONDO_TRY(config.set(Key::rank, std::to_string(options.rank), Source::options));
    RONDO_TRY(config.set(Key::world, std::to_string(options.world), Source::options));
  }
  RONDO_TRY(take(config, Key::rendezvous, options.rendezvous));
  RONDO_TRY(take(config, Key::transports, options.transports));
  RONDO_TRY(take(config, Key::interface, options.interface));
  RONDO_TRY(take(config, Key::algorithm, options.algorithm));
  RONDO_TRY(take(config, Key::host_id, options.host_id));
  if (options.determinism > 3)
    return fail(Code::invalid, "options.determinism is {}, expected 0 (environment), 1, 2 or 3", options.determinism);
  if (options.determinism > 0)
    RONDO_TRY(config.set(Key::determinism, "A" + std::to_string(options.determinism), Source::options));
  return {};
}

}  // namespace

Result<Settings> settings_of(const rondo_options* given) {
  const auto options = known_part(given, rondo_options RONDO_OPTIONS_INIT, offsetof(rondo_options, rendezvous),
                                  "options", "rondo_options");
  if (!options.ok()) return options.status();
  const rondo_options& known = options.value();
  auto config = Config::from_environment(known.config);
  if (!config.ok()) return config.status();
  RONDO_TRY(apply(known, *config));
  auto launch = launch_from(*config, known.key);
  if (!launch.ok()) return launch.status();
  const Logger log(LoggerOptions{.level = static_cast<LogLevel>(config->choice(Key::log)),
                                 .rank = static_cast<int64_t>(launch->rank),
                                 .callback = known.log,
                                 .callback_arg = known.log_arg});
  for (const std::string& warning : config->warnings()) log.warn("{}", warning);
  log.info("rank {} of {}, as {} says", launch->rank, launch->world, launch->family);
  auto spec = AlgorithmSpec::parse(config->text(Key::algorithm));
  if (!spec.ok()) return spec.status();
  const uint32_t determinism = static_cast<uint32_t>(config->choice(Key::determinism)) + 1;
  if (determinism >= 3)
    return fail(Code::unsupported, "determinism A3 (exact sums) is not in this build; A1 and A2 are");
  int64_t timeout_ns = known.timeout_ns;
  if (timeout_ns == 0) {
    const int64_t ms = config->milliseconds(Key::timeout_ms);
    timeout_ns = ms < 0 ? -1 : ms * 1'000'000;
  }
  return Settings{.fabric = {.config = *config,
                             .log = log,
                             .launch = *launch,
                             .host_id = config->text(Key::host_id),
                             .timeout_ns = timeout_ns},
                  .communicator = {.spec = std::move(spec).value(), .determinism = determinism}};
}

Result<CallOptions> call_options_of(const rondo_call_options* given) {
  const auto options = known_part(given, rondo_call_options RONDO_CALL_OPTIONS_INIT, sizeof(rondo_call_options),
                                  "call_options", "rondo_call_options");
  if (!options.ok()) return options.status();
  const rondo_call_options& known = options.value();
  if (known.determinism > 3)
    return fail(Code::invalid, "call_options.determinism is {}, expected 0 (the communicator's), 1, 2 or 3",
                known.determinism);
  if (known.determinism == 3)
    return fail(Code::unsupported, "determinism A3 (exact sums) is not in this build; A1 and A2 are");
  if (known.timeout_ns < -1)
    return fail(Code::invalid, "call_options.timeout_ns is {}, expected nanoseconds, 0 (the communicator's) or -1",
                known.timeout_ns);
  auto spec = AlgorithmSpec::parse(known.algorithm == nullptr ? "" : known.algorithm);
  if (!spec.ok()) return spec.status();
  return CallOptions{.determinism = known.determinism,
                     .timeout_ns = known.timeout_ns,
                     .spec = std::move(spec).value(),
                     .name = known.name == nullptr ? "" : known.name,
                     .prescale = known.prescale,
                     .postscale = known.postscale,
                     .priority = known.priority};
}

}  // namespace rondo::capi
