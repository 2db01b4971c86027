// How a Fabric comes to be: rendezvous, transports, links, control plane.
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>

#include <fmt/core.h>

#include "comm/abort_text.h"
#include "comm/card.h"
#include "comm/fabric.h"
#include "comm/interfaces.h"
#include "comm/tuning.h"
#include "comm/wiring.h"
#include "kernels/kernels.h"
#include "transport/mesh.h"
#include "transport/wire.h"

namespace rondo {
namespace {

std::string read_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Names the host and its network namespace: ranks with equal names try to share memory, which then proves itself.
std::string found_host_id() {
  char link[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", link, sizeof link - 1);
  return read_line("/proc/sys/kernel/random/boot_id") + "/" +
         std::string(link, length > 0 ? static_cast<size_t>(length) : 0);
}

// The local address by which the rendezvous host is reached; loopback when it says nothing of a network.
std::string host_towards(const std::string& rendezvous) {
  const std::string fallback = "127.0.0.1";
  const bool probed = rendezvous.starts_with("probe://");
  if (!probed && !rendezvous.starts_with("tcp://")) return fallback;
  std::string host = rendezvous.substr(probed ? 8 : 6);
  host.resize(std::min(host.size(), host.find('/')));
  const size_t colon = host.rfind(':');
  if (colon == std::string::npos) return fallback;
  const std::string port = host.substr(colon + 1);
  host.resize(colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return fallback;
  std::string local = fallback;
  UniqueFd fd(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST];
  // Connecting a datagram socket sends nothing: it asks the routing table.
  if (fd && ::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
    local = text;
  freeaddrinfo(found);
  return local;
}

// Where this rank listens: what RONDO_INTERFACE chooses, else the address by which the rendezvous is reached.
Result<std::string> listening_host(const FabricOptions& options) {
  const std::string towards = host_towards(options.launch.rendezvous);
  const std::string& spec = options.config.text(Key::interface);
  if (spec.empty()) return towards;
  const auto present = interface_addresses();
  if (!present.ok()) return present.status();
  return choose_address(spec, present.value(), towards);
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return parts;
}

std::string affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  return std::string(reinterpret_cast<const char*>(&set), sizeof set);
}

// Whole processors that the cgroup grants, at least 1; 0 where it sets no limit.
uint32_t cgroup_quota() {
  // cgroup v2: "quota period" in microseconds, or "max period".
  const std::string limit = read_line("/sys/fs/cgroup/cpu.max");
  unsigned long long quota = 0, period = 0;
  if (sscanf(limit.c_str(), "%llu %llu", &quota, &period) != 2 || period == 0) return 0;
  return static_cast<uint32_t>(std::max<unsigned long long>(1, quota / period));
}

// Processors that the ranks of one host may use together.
uint32_t usable_cpus(const std::vector<const Card*>& local) {
  std::string together(sizeof(cpu_set_t), 0);
  uint32_t quota = 0;
  for (const Card* card : local) {
    for (size_t i = 0; i < std::min(together.size(), card->cpus.size()); ++i) together[i] |= card->cpus[i];
    if (card->cpu_quota != 0) quota = quota == 0 ? card->cpu_quota : std::min(quota, card->cpu_quota);
  }
  uint32_t cpus = 0;
  for (const char byte : together) cpus += static_cast<uint32_t>(std::popcount(static_cast<unsigned char>(byte)));
  if (cpus == 0) cpus = 1;  // unknown: as few as there can be
  return quota == 0 ? cpus : std::min(cpus, quota);
}

}  // namespace

Status Fabric::make_transports() {
  const std::string& wanted = options_.config.text(Key::transports);
  std::vector<std::string> names = words(wanted);
  std::string built;
  for (const TransportKind& kind : transport_kinds()) {
    built += (built.empty() ? "" : ", ") + std::string(kind.name);
    if (wanted.empty()) names.emplace_back(kind.name);
  }
  auto host = listening_host(options_);
  if (!host.ok()) return host.status();
  const TransportSettings settings{
      .identity = identity_, .config = &options_.config, .bind_host = std::move(host).value()};
  for (const std::string& name : names) {
    const auto kinds = transport_kinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const TransportKind& k) { return k.name == name; });
    if (kind == kinds.end())
      return fail(Code::unsupported, "transport '{}' is unknown; this build has: {}", name, built);
    auto made = kind->make(settings);
    if (!made.ok()) {
      if (!wanted.empty()) return made.status();
      options_.log.info("transport {} is not used: {}", name, made.status().text());
      continue;
    }
    transports_.push_back(std::move(made).value());
  }
  return {};
}

Status Fabric::connect() {
  const Launch& launch = options_.launch;
  const Deadline deadline = Deadline::after_ms(options_.config.milliseconds(Key::join_timeout_ms));
  identity_ = {.rank = launch.rank, .world = launch.world, .keyed = launch.keyed, .key = launch.key};
  device_ = std::make_unique<HostDevice>(kernels::best());
  links_.resize(world());
  departed_at_.assign(world(), 0);
  host_of_.resize(world());
  pid_of_.resize(world());
  std::vector<Card> cards;
  if (world() > 1) {
    RONDO_TRY(meet(deadline, cards));
    RONDO_TRY(adopt_tuning(cards.front()));
    RONDO_TRY(open_control(deadline, cards));
    const Status linked = link_up(deadline, cards);
    if (!linked.ok()) {
      // Before this rank's farewell, so that the others report the cause and not that this rank has left.
      control_->shout({.kind = ControlKind::abort,
                       .from = rank(),
                       .code = linked.code(),
                       .culprit = rank(),
                       .text = with_comm(kWorldGroup, linked.text())});
      return linked;
    }
  } else {
    Card own;
    describe_tuning(options_.config, options_.log, own);
    RONDO_TRY(adopt_tuning(own));
  }
  // More ranks than processors on this machine: who spins keeps the awaited rank from running.
  ranks_a_cpu_ = ranks_a_cpu(cards);
  spins_ = ranks_a_cpu_ > 1 ? 2 : 100;
  yields_ = 300;
  std::vector<Transport*> used;
  for (const auto& transport : transports_) used.push_back(transport.get());
  executor_ = std::make_unique<Executor>(Executor::Options{.device = device_.get(), .transports = used});
  return {};
}

Status Fabric::link_up(const Deadline& deadline, std::vector<Card>& cards) {
  RONDO_TRY(make_transports());
  RONDO_TRY(exchange_addresses(deadline, cards));
  const Status chosen = choose_links(deadline, cards);
  return chosen.code() == Code::peer || chosen.code() == Code::timeout ? first_cause(chosen) : chosen;
}

// When one rank dies while the transports connect, the others see each other leave as well: what the control plane
// knows, or is told within a moment, is the first cause.
Status Fabric::first_cause(const Status& seen) {
  const Deadline moment = Deadline::after_ms(kCauseWaitMs);
  do {
    messages_.clear();
    if (!control_->progress(messages_)) {
      pollfd waiting{.fd = control_->wait_fd(), .events = POLLIN, .revents = 0};
      ::poll(&waiting, 1, moment.poll_ms(20));
    }
    for (const ControlMessage& message : messages_) {
      if (message.kind == ControlKind::lost) return Status(Code::peer, message.text);
      if (message.kind == ControlKind::abort) return Status(message.code, without_comm(message.text));
    }
  } while (!moment.passed());
  return seen;
}

// Ranks of fake hosts share this machine too: what counts is where they run, not what they pretend.
uint32_t Fabric::ranks_a_cpu(const std::vector<Card>& cards) const {
  const std::string here = options_.host_id.empty() ? found_host_id() : options_.host_id;
  std::vector<const Card*> local;
  for (const Card& card : cards)
    if (card.host_id.starts_with(here)) local.push_back(&card);
  const auto ranks = static_cast<uint32_t>(local.size());
  if (ranks < 2) return 1;
  const uint32_t cpus = std::max(usable_cpus(local), 1u);
  return (ranks + cpus - 1) / cpus;
}

// The rendezvous: every rank learns every other's host and control addresses.
Status Fabric::meet(const Deadline& deadline, std::vector<Card>& cards) {
  const Launch& launch = options_.launch;
  Card own;
  own.host_id = options_.host_id.empty() ? found_host_id() : options_.host_id;
  const int64_t fake_hosts = options_.config.integer(Key::fake_hosts);
  if (fake_hosts > 0) own.host_id += fmt::format("/{}", static_cast<int64_t>(rank()) * fake_hosts / world());
  own.pid = static_cast<uint64_t>(getpid());
  own.cpus = affinity();
  own.cpu_quota = cgroup_quota();
  if (rank() == 0) describe_tuning(options_.config, options_.log, own);
  auto local = Listener::unix_abstract();
  if (!local.ok()) return local.status();
  local_listener_ = std::move(local).value();
  own.local_control = local_listener_->address();
  const PortRange ports = options_.config.ports(Key::port_range);
  const auto host = listening_host(options_);
  if (!host.ok()) return host.status();
  auto remote = Listener::tcp({.host = host.value(), .port_first = ports.first, .port_last = ports.last});
  if (!remote.ok()) return remote.status();
  remote_listener_ = std::move(remote).value();
  own.remote_control = remote_listener_->address();
  auto met = join({.rendezvous = launch.rendezvous,
                   .listen_fd = launch.listen_fd,
                   .rank = launch.rank,
                   .world = launch.world,
                   .keyed = launch.keyed,
                   .key = launch.key,
                   .blob = own.encode(),
                   .deadline = deadline},
                  options_.log);
  if (!met.ok()) return met.status();
  identity_ = met->identity;
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < world(); ++rank) {
    auto card = Card::decode(met->blobs[rank], rank);
    if (!card.ok()) return card.status();
    cards.push_back(std::move(card).value());
    const auto host = std::find(hosts.begin(), hosts.end(), cards[rank].host_id);
    host_of_[rank] = static_cast<uint32_t>(host - hosts.begin());
    if (host == hosts.end()) hosts.push_back(cards[rank].host_id);
  }
  return {};
}

// Control links: Unix sockets on one host, TCP between hosts.
Status Fabric::open_control(const Deadline& deadline, const std::vector<Card>& cards) {
  std::vector<std::string> local(world()), remote(world());
  const std::string here = found_host_id();
  for (Rank rank = 0; rank < world(); ++rank) {
    if (rank == this->rank()) continue;
    (same_host(rank) ? local : remote)[rank] = same_host(rank) ? cards[rank].local_control : cards[rank].remote_control;
    if (cards[rank].host_id.starts_with(here) && cards[rank].pid != static_cast<uint64_t>(getpid()))
      pid_of_[rank] = static_cast<pid_t>(cards[rank].pid);
  }
  MeshOptions options{.identity = identity_, .purpose = "control", .streams = 1, .deadline = deadline};
  auto near = connect_mesh(options, *local_listener_, local);
  if (!near.ok()) return near.status();
  auto far = connect_mesh(options, *remote_listener_, remote);
  if (!far.ok()) return far.status();
  std::vector<MeshLink> links = std::move(near).value();
  for (MeshLink& link : *far) links.push_back(std::move(link));
  auto control =
      ControlPlane::create(rank(), std::move(links), pid_of_, options_.config.milliseconds(Key::liveness_ms));
  if (!control.ok()) return control.status();
  control_ = std::move(control).value();
  local_listener_.reset();
  remote_listener_.reset();
  return {};
}

// Every rank tells every other the addresses of its transports.
Status Fabric::exchange_addresses(const Deadline& deadline, std::vector<Card>& cards) {
  std::string own;
  put<uint32_t>(own, static_cast<uint32_t>(transports_.size()));
  for (const auto& transport : transports_) {
    put_text(own, transport->name());
    put_text(own, transport->address());
  }
  for (Rank rank = 0; rank < world(); ++rank)
    if (rank != this->rank()) control_->send(rank, {.kind = ControlKind::note, .from = this->rank(), .text = own});
  std::vector<bool> known(world());
  known[rank()] = true;
  uint32_t missing = world() - 1;
  while (missing > 0) {
    if (deadline.passed()) {
      std::string names;
      for (Rank rank = 0; rank < world(); ++rank)
        if (!known[rank]) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
      return fail(Code::timeout, "no transport addresses from rank {} before the join deadline", names);
    }
    messages_.clear();
    if (!control_->progress(messages_)) {
      pollfd waiting{.fd = control_->wait_fd(), .events = POLLIN, .revents = 0};
      ::poll(&waiting, 1, deadline.poll_ms(20));
    }
    for (const ControlMessage& message : messages_) {
      if (message.kind == ControlKind::lost) return Status(Code::peer, message.text);
      if (message.kind == ControlKind::abort) return Status(message.code, without_comm(message.text));
      if (message.kind == ControlKind::goodbye)
        return fail(Code::peer, "rank {} left while the ranks were connecting", message.from);
      if (message.kind != ControlKind::note || known[message.from]) continue;
      known[message.from] = true;
      --missing;
      RONDO_TRY(cards[message.from].decode_transports(message.text, message.from));
    }
  }
  return {};
}

// Each pair takes the first transport of this rank's list that both have, that fits their hosts and that reaches.
Status Fabric::choose_links(const Deadline& deadline, const std::vector<Card>& cards) {
  std::vector<std::vector<Peer>> peers(transports_.size());
  for (Rank rank = 0; rank < world(); ++rank) {
    if (rank == this->rank()) continue;
    std::string why_not;
    size_t chosen = transports_.size();
    for (size_t i = 0; i < transports_.size() && chosen == transports_.size(); ++i) {
      Transport& transport = *transports_[i];
      const auto kinds = transport_kinds();
      const auto kind =
          std::find_if(kinds.begin(), kinds.end(), [&](const TransportKind& k) { return k.name == transport.name(); });
      const std::string* address = cards[rank].address_of(transport.name());
      Status reach;
      if (address == nullptr) {
        reach = fail(Code::unsupported, "rank {} does not have it", rank);
      } else if (kind->one_host && !same_host(rank)) {
        reach = fail(Code::unsupported, "rank {} is on another host", rank);
      } else {
        reach = transport.reaches(*address);
      }
      if (reach.ok()) {
        chosen = i;
        peers[i].push_back({rank, *address});
        links_[rank].transport = &transport;
      } else {
        why_not += fmt::format("{}{}: {}", why_not.empty() ? "" : "; ", transport.name(), reach.text());
      }
    }
    if (chosen == transports_.size())
      return fail(Code::unsupported, "no transport reaches rank {} ({})", rank,
                  why_not.empty() ? "none is built" : why_not);
  }
  for (size_t i = 0; i < transports_.size(); ++i) {
    if (peers[i].empty()) continue;
    RONDO_TRY(transports_[i]->connect(peers[i], deadline));
    for (const Peer& peer : peers[i]) links_[peer.rank].endpoint = transports_[i]->endpoint(peer.rank);
  }
  return {};
}

}  // namespace rondo
