#include "transport/mesh.h"

#include <sodium.h>
#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <utility>

#include "transport/address.h"
#include "transport/dial.h"

namespace rondo {
namespace {

constexpr size_t kNamedMax = 8;

Result<std::unique_ptr<Listener>> make_listener(UniqueFd fd) {
  auto bound = local_address(fd.get());
  RONDO_TRY(bound.status());
  return std::make_unique<Listener>(std::move(fd), format_address(*bound));
}

bool port_is_taken(int error) { return error == EADDRINUSE || error == EACCES; }

}  // namespace

Result<std::unique_ptr<Listener>> Listener::tcp(const TcpOptions& options) {
  if (options.port_first > options.port_last)
    return fail(Code::invalid, "ports {}-{}: the first is above the last", options.port_first, options.port_last);
  const bool bracket = options.host.find(':') != std::string::npos;
  for (uint32_t port = options.port_first; port <= options.port_last; ++port) {
    auto wanted =
        parse_address(fmt::format("tcp:{}{}{}:{}", bracket ? "[" : "", options.host, bracket ? "]" : "", port));
    RONDO_TRY(wanted.status());
    int error = 0;
    auto fd = listen_at(*wanted, error);
    if (fd.ok()) return make_listener(std::move(*fd));
    if (port == options.port_last && options.port_first != options.port_last)
      return fail(fd.status().code(), "{}, the last tried of ports {}-{}", fd.status().text(), options.port_first,
                  options.port_last);
    if (port == options.port_last || !port_is_taken(error)) return fd.status();
  }
  return fail(Code::internal, "no port tried");
}

Result<std::unique_ptr<Listener>> Listener::unix_abstract() {
  RONDO_CHECK(sodium_init() >= 0);
  uint64_t words[2];
  randombytes_buf(words, sizeof words);
  return unix_named(fmt::format("rondo-{:016x}{:016x}", words[0], words[1]));
}

Result<std::unique_ptr<Listener>> Listener::unix_named(std::string_view name) {
  auto wanted = parse_address("unix:" + std::string(name));
  RONDO_TRY(wanted.status());
  int error = 0;
  auto fd = listen_at(*wanted, error);
  RONDO_TRY(fd.status());
  return make_listener(std::move(*fd));
}

Result<std::unique_ptr<Listener>> Listener::adopt(UniqueFd fd) {
  int listening = 0;
  socklen_t bytes = sizeof listening;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) < 0)
    return system_error(errno, fmt::format("inherited file descriptor {}", fd.get()));
  if (listening == 0) return fail(Code::invalid, "inherited file descriptor {} is not a listening socket", fd.get());
  RONDO_TRY(prepare_stream(fd.get()));
  return make_listener(std::move(fd));
}

namespace {

// One call of connect_mesh: the dialers to the lower ranks and the door for the higher ones.
class Mesh {
 public:
  Mesh(const MeshOptions& options, Listener& listener, std::span<const std::string> addresses)
      : options_(options),
        addresses_(addresses),
        start_ns_(now_ns()),
        acceptor_({listener.fd()}, handshake_options(0), [this](const Hello& hello) { return judge(hello); }) {
    for (Rank rank = 0; rank < addresses.size(); ++rank)
      if (rank != me() && !addresses[rank].empty()) links_[rank].resize(options.streams);
    for (const auto& [rank, sockets] : links_) {
      missing_ += sockets.size();
      if (rank > me()) continue;
      for (uint32_t stream = 0; stream < options.streams; ++stream) {
        HandshakeOptions dial = handshake_options(stream);
        dial.peer = rank;
        dials_.push_back({rank, stream, std::make_unique<Dialer>(addresses[rank], dial)});
      }
    }
  }

  Result<std::vector<MeshLink>> run() {
    PollSet set;
    while (missing_ > 0) {
      set.clear();
      acceptor_.watch(set);
      for (Dial& dial : dials_) dial.dialer->watch(set);
      RONDO_TRY(set.wait(options_.deadline));
      const int64_t now = now_ns();
      for (Dial& dial : dials_) step(dial, set, now);
      std::erase_if(dials_, [](const Dial& dial) { return dial.dialer == nullptr; });
      std::vector<Acceptor::Guest> guests;
      if (Status failure = acceptor_.step(set, now, guests); !failure.ok())
        return fail(failure.code(), "{} mesh: {}", options_.purpose, failure.text());
      for (Acceptor::Guest& guest : guests) keep(guest.hello.rank, guest.hello.stream, std::move(guest.socket));
      if (missing_ > 0 && options_.deadline.passed()) return missing_error();
    }
    std::vector<MeshLink> links;
    for (auto& [rank, sockets] : links_) links.push_back({rank, std::move(sockets)});
    return links;
  }

 private:
  struct Dial {
    Rank rank;
    uint32_t stream;
    std::unique_ptr<Dialer> dialer;  // null once connected
  };

  Rank me() const { return options_.identity.rank; }

  HandshakeOptions handshake_options(uint32_t stream) const {
    return {.identity = options_.identity, .purpose = options_.purpose, .stream = stream};
  }

  void step(Dial& dial, const PollSet& set, int64_t now) {
    dial.dialer->step(set, now);
    if (!dial.dialer->done()) return;
    const Hello& peer = dial.dialer->handshake().peer();
    if (peer.world != options_.identity.world) {
      dial.dialer->retry(
          fail(Code::mismatch, "it says that there are {} ranks, not {}", peer.world, options_.identity.world), now);
      return;
    }
    keep(dial.rank, dial.stream, dial.dialer->handshake().take_fd());
    dial.dialer.reset();
  }

  Status judge(const Hello& hello) const {
    if (hello.world != options_.identity.world)
      return fail(Code::mismatch, "rank {} says that there are {} ranks, not {}", hello.rank, hello.world,
                  options_.identity.world);
    if (hello.rank <= me() || !links_.contains(hello.rank) || hello.stream >= options_.streams)
      return fail(Code::mismatch, "rank {}, stream {}, is not awaited here", hello.rank, hello.stream);
    return {};
  }

  // A rank that gave up on a socket and dialed again means the newer one.
  void keep(Rank rank, uint32_t stream, UniqueFd socket) {
    UniqueFd& place = links_.at(rank)[stream];
    if (!place) --missing_;
    place = std::move(socket);
  }

  Status missing_error() const {
    std::string text;
    size_t named = 0;
    Code code = Code::auth;
    for (const auto& [rank, sockets] : links_) {
      uint32_t absent = 0;
      for (const UniqueFd& socket : sockets) absent += socket ? 0 : 1;
      if (absent == 0) continue;
      const Status why = last_of(rank);
      if (why.code() != Code::auth) code = Code::timeout;
      if (named == 0)
        text = fmt::format("rank {} at {} did not connect within {:.1f} s", rank, bare_address(addresses_[rank]),
                           static_cast<double>(now_ns() - start_ns_) * 1e-9);
      else if (named < kNamedMax)
        text += fmt::format("; nor did rank {} at {}", rank, bare_address(addresses_[rank]));
      else
        text += fmt::format("{}{}", named == kNamedMax ? "; nor did ranks " : ", ", rank);
      if (named < kNamedMax && absent < sockets.size())
        text += fmt::format(" ({} of {} streams missing)", absent, sockets.size());
      if (named < kNamedMax && !why.ok()) text += ": " + why.text();
      ++named;
    }
    return fail(code, "{} mesh: {}{}", options_.purpose, text, acceptor_.dropped_text());
  }

  // What is known of a missing rank; ok when it was to dial us.
  Status last_of(Rank rank) const {
    for (const Dial& dial : dials_)
      if (dial.rank == rank) return dial.dialer->why();
    return {};
  }

  MeshOptions options_;
  std::span<const std::string> addresses_;
  int64_t start_ns_;
  std::map<Rank, std::vector<UniqueFd>> links_;
  std::vector<Dial> dials_;
  Acceptor acceptor_;
  size_t missing_ = 0;
};

}  // namespace

Result<std::vector<MeshLink>> connect_mesh(const MeshOptions& options, Listener& listener,
                                           std::span<const std::string> addresses) {
  if (options.purpose.size() > kPurposeBytes)
    return fail(Code::invalid, "mesh purpose '{}' has {} bytes, at most {} are possible", options.purpose,
                options.purpose.size(), kPurposeBytes);
  if (options.streams == 0) return fail(Code::invalid, "{} mesh: 0 streams", options.purpose);
  if (addresses.size() > options.identity.world)
    return fail(Code::invalid, "{} mesh: {} addresses for {} ranks", options.purpose, addresses.size(),
                options.identity.world);
  return Mesh(options, listener, addresses).run();
}

}  // namespace rondo
