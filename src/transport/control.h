// The control plane: one small socket to every other rank (Unix on one host, TCP between hosts) that carries what is
// not data: farewells, aborts, call boards; and the failure detector, which is the kernel's word (EOF, pidfd).
// Progress-lease holder only, except shout(), which any thread may call.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "transport/mesh.h"

namespace rondo {

enum class ControlKind : uint8_t {
  goodbye = 1,  // the sender destroys its communicator in order; nothing more will come
  abort = 2,    // the sender's job is broken or was aborted: code, culprit and the first cause's text
  board = 3,    // a call-board entry (opaque bytes to this layer)
  note = 4,     // anything else a later layer needs (opaque bytes)
  lost = 5,     // never sent: made here when a peer's socket or process ended without goodbye
};

struct ControlMessage {
  ControlKind kind = ControlKind::note;
  Rank from = 0;
  Code code = Code::ok;  // abort, lost
  Rank culprit = 0;      // abort: the rank to blame; lost: the peer itself
  std::string text;      // abort, lost: the cause; board, note: the bytes (at most 4 KiB)
};

class ControlPlane {
 public:
  // Takes over the links of a mesh made with purpose "control". pids[r] is the process of rank r where it runs on this
  // host and is not this process, else 0: watched by pidfd besides the socket. A TCP peer that has answered nothing for
  // liveness_ms (0: no limit) counts as lost.
  static Result<std::unique_ptr<ControlPlane>> create(Rank rank, std::vector<MeshLink> links,
                                                      std::span<const pid_t> pids, int64_t liveness_ms = 5000);
  virtual ~ControlPlane() = default;

  // Queues a message to a peer; sends what fits now, the rest in progress(). Messages to a lost peer vanish.
  virtual void send(Rank to, const ControlMessage& message) = 0;
  // To all peers, from any thread, without allocation beyond the message and without waiting: the abort path. A peer
  // whose socket is full gets it from progress() later.
  virtual void shout(const ControlMessage& message) = 0;
  // Appends what has arrived, `lost` included (once a peer, and never after its goodbye). Returns whether anything
  // came.
  virtual bool progress(std::vector<ControlMessage>& messages) = 0;
  // Readable when progress() has something to do.
  virtual int wait_fd() const = 0;
  // Whether everything queued has been handed to the kernel.
  virtual bool flushed() const = 0;
};

}  // namespace rondo
