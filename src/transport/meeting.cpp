#include "transport/meeting.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "transport/address.h"

namespace rondo {
namespace {

constexpr int64_t kFileLookNs = 20'000'000;
constexpr int64_t kNameLookNs = 2'000'000'000;
constexpr size_t kInterfaceAddressesMax = 4;

Digest digest_of(std::string_view label, std::string_view text) { return keyed_digest({}, label, text, ""); }

uint64_t tag_of(std::string_view label, std::string_view text) {
  return WireReader(digest_of(label, text)).get<uint64_t>();
}

// Names of any length and bytes become one that fits a socket address; the user's number keeps users apart.
std::string abstract_name(std::string_view scope, std::string_view name) {
  const Digest digest = digest_of("name", fmt::format("{}:{}:{}", scope, geteuid(), name));
  return "rondo-" + hex_of(Bytes(digest).first(16));
}

Status parse_network(std::string_view rest, Place& place) {
  const size_t slash = rest.find('/');
  auto parts = parse_host_port(rest.substr(0, slash));
  RONDO_TRY(parts.status());
  place.host = parts->host;
  place.port = parts->port;
  if (slash != std::string_view::npos) place.name = rest.substr(slash + 1);
  if (place.port == 0) return fail(Code::invalid, "port 0");
  if (place.kind == Place::Kind::tcp && !place.name.empty()) return fail(Code::invalid, "text after the port");
  if (place.kind == Place::Kind::probe && place.port > UINT16_MAX - kProbePorts)
    return fail(Code::invalid, "no {} ports above {}", kProbePorts, place.port);
  return {};
}

Pass pass_of(const Place& place, bool keyed, const JobKey& key) {
  Pass pass{.tag = 0, .keyed = keyed, .key = key};
  if (place.kind == Place::Kind::probe) pass.tag = tag_of("probe", place.name);
  return pass;
}

// Whoever can read the file is a member: its secret stands for a job key, or joins it.
Pass pass_of(const MeetingFile& file, bool keyed, const JobKey& key) {
  const std::string_view secret(reinterpret_cast<const char*>(file.secret.data()), file.secret.size());
  return {
      .tag = tag_of("file", secret), .keyed = true, .key = keyed ? keyed_digest(key, "file", secret, "") : file.secret};
}

// The addresses under which other hosts may reach this one.
std::vector<SocketAddress> interface_addresses() {
  std::vector<SocketAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) < 0) return found;
  for (const ifaddrs* i = list; i != nullptr && found.size() < kInterfaceAddressesMax; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, i->ifa_addr, address.bytes);
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    found.push_back(address);
  }
  freeifaddrs(list);
  return found;
}

Status write_whole(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "write " + path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// Readers see the old file or the whole new one, and nobody but this user reads it.
Status replace_file(const std::string& path, std::string_view text) {
  const std::string fresh = fmt::format("{}.{}.{:08x}", path, getpid(), randombytes_random());
  const UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, "create " + fresh);
  Status status = write_whole(fd.get(), text, fresh);
  if (status.ok() && rename(fresh.c_str(), path.c_str()) < 0) status = system_error(errno, "rename to " + path);
  if (!status.ok()) unlink(fresh.c_str());
  return status;
}

Result<MeetingFile> read_meeting(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error(errno, "open " + path);
  struct stat info {};
  if (fstat(fd.get(), &info) < 0) return system_error(errno, "look at " + path);
  if (!S_ISREG(info.st_mode)) return fail(Code::invalid, "{} is not a regular file", path);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0)
    return fail(Code::auth, "{} belongs to user {} with mode {:o}: it must be this user's alone", path, info.st_uid,
                info.st_mode & 0777);
  auto text = read_rest(fd, kMeetingFileMax + 1, path);
  if (!text.ok()) return text.status();
  auto file = parse_meeting(*text);
  if (!file.ok()) return fail(file.status().code(), "{}: {}", path, file.status().text());
  return file;
}

}  // namespace

Result<Place> parse_place(std::string_view rendezvous) {
  struct Scheme {
    std::string_view prefix;
    Place::Kind kind;
  };
  constexpr Scheme kSchemes[] = {{"tcp://", Place::Kind::tcp},
                                 {"probe://", Place::Kind::probe},
                                 {"file://", Place::Kind::file},
                                 {"inproc://", Place::Kind::local},
                                 {"unix://", Place::Kind::local}};
  for (const Scheme& scheme : kSchemes) {
    if (!rendezvous.starts_with(scheme.prefix)) continue;
    const std::string_view rest = rendezvous.substr(scheme.prefix.size());
    Place place{.kind = scheme.kind, .text = std::string(rendezvous)};
    Status status;
    if (rest.empty() || rest.find('\0') != std::string_view::npos) {
      status = fail(Code::invalid, "nothing after {}", scheme.prefix);
    } else if (place.kind == Place::Kind::file) {
      place.name = rest;
      if (rest.front() != '/') status = fail(Code::invalid, "the path is not absolute");
    } else if (place.kind == Place::Kind::local) {
      place.name = abstract_name(scheme.prefix == "inproc://" ? fmt::format("inproc {}", getpid()) : "unix", rest);
    } else {
      status = parse_network(rest, place);
    }
    if (!status.ok()) return fail(Code::invalid, "rendezvous '{}': {}", rendezvous, status.text());
    return place;
  }
  return fail(Code::invalid, "rendezvous '{}' is none of tcp://host:port, file:///path, unix://name, inproc://name",
              rendezvous);
}

Result<std::unique_ptr<Meeting>> Meeting::open(const Place& place, const JoinOptions& options, int& error) {
  RONDO_CHECK(sodium_init() >= 0);
  std::unique_ptr<Meeting> meeting(new Meeting);
  meeting->pass_ = pass_of(place, options.keyed, options.key);
  Status status;
  if (place.kind == Place::Kind::local) {
    auto address = parse_address("unix:" + place.name);
    RONDO_TRY(address.status());
    auto fd = listen_at(*address, error);
    status = fd.status();
    if (fd.ok()) meeting->sockets_.push_back(std::move(*fd));
  } else if (place.kind == Place::Kind::file) {
    status = meeting->open_file(place);
    meeting->pass_ = pass_of(meeting->file_, options.keyed, options.key);
  } else {
    status = meeting->open_tcp(place, options, error);
  }
  if (!status.ok()) return fail(status.code(), "rendezvous {}: {}", place.text, status.text());
  return meeting;
}

Status Meeting::open_tcp(const Place& place, const JoinOptions& options, int& error) {
  if (options.listen_fd >= 0) {
    auto adopted = Listener::adopt(UniqueFd(options.listen_fd));
    RONDO_TRY(adopted.status());
    sockets_.emplace_back((*adopted)->take_fd());
    return {};
  }
  const bool probe = place.kind == Place::Kind::probe;
  const uint16_t first = probe ? place.port + 1 : place.port;
  const uint16_t last = probe ? place.port + kProbePorts : place.port;
  Status status;
  for (uint32_t port = first; port <= last; ++port) {
    auto addresses = resolve(place.host, static_cast<uint16_t>(port));
    RONDO_TRY(addresses.status());
    for (const SocketAddress& address : *addresses) {
      int why = 0;
      auto fd = listen_at(address, why);
      if (fd.ok()) {
        sockets_.push_back(std::move(*fd));
        return {};
      }
      // A taken port says more than an address family that is not there.
      if (status.ok() || why == EADDRINUSE) {
        status = fd.status();
        error = why;
      }
    }
    if (!status.ok() && error != EADDRINUSE && error != EACCES) break;
  }
  if (error == EADDRNOTAVAIL) return fail(Code::system, "rank 0 does not run on {}: {}", place.host, status.text());
  return status;
}

Status Meeting::open_file(const Place& place) {
  randombytes_buf(file_.secret.data(), file_.secret.size());
  auto local = Listener::unix_abstract();
  RONDO_TRY(local.status());
  file_.addresses.push_back((*local)->address());
  sockets_.push_back((*local)->take_fd());
  for (const SocketAddress& address : interface_addresses()) {
    int error = 0;
    auto fd = listen_at(address, error);
    if (!fd.ok()) continue;  // an address that is not ready yet (IPv6 is checked for duplicates first)
    auto bound = local_address(fd->get());
    RONDO_TRY(bound.status());
    file_.addresses.push_back(format_address(*bound));
    sockets_.push_back(std::move(*fd));
  }
  RONDO_TRY(replace_file(place.name, encode_meeting(file_)));
  path_ = place.name;
  return {};
}

Meeting::~Meeting() {
  if (path_.empty()) return;
  auto now = read_meeting(path_);
  if (now.ok() && now->secret == file_.secret) unlink(path_.c_str());
}

std::vector<int> Meeting::listeners() const {
  std::vector<int> fds;
  for (const UniqueFd& socket : sockets_) fds.push_back(socket.get());
  return fds;
}

Guide::Guide(Place place, const JoinOptions& options)
    : place_(std::move(place)), keyed_(options.keyed), key_(options.key), pass_(pass_of(place_, keyed_, key_)) {}

bool Guide::refresh(int64_t now) {
  if (now < next_ns_) return false;
  const Pass pass = pass_;
  const std::vector<std::string> addresses = addresses_;
  why_ = look();
  // Looking may have taken long, and names cost more than a file.
  next_ns_ = now_ns() + (place_.kind == Place::Kind::file || !why_.ok() ? kFileLookNs : kNameLookNs);
  return pass != pass_ || addresses != addresses_;
}

Status Guide::look() {
  if (place_.kind == Place::Kind::file) return read_file();
  if (place_.kind != Place::Kind::local) return look_up();
  addresses_ = {"unix:" + place_.name};
  return {};
}

Status Guide::look_up() {
  auto found = resolve(place_.host, 0);
  RONDO_TRY(found.status());
  const bool probe = place_.kind == Place::Kind::probe;
  std::vector<std::string> addresses;
  for (uint16_t step = probe ? 1 : 0; step <= (probe ? kProbePorts : 0); ++step)
    for (SocketAddress& address : *found) {
      // The port stands at the same place in both families.
      static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
      reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(static_cast<uint16_t>(place_.port + step));
      addresses.push_back(format_address(address));
    }
  addresses_ = std::move(addresses);
  return {};
}

Status Guide::read_file() {
  auto file = read_meeting(place_.name);
  RONDO_TRY(file.status());
  addresses_ = file->addresses;
  pass_ = pass_of(*file, keyed_, key_);
  return {};
}

}  // namespace rondo
