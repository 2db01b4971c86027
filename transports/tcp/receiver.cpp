#include "transports/tcp/receiver.h"

#include <algorithm>
#include <cstring>

#include "transports/tcp/io.h"

namespace rondo::tcp {

void Receiver::finish(Sink& sink) {
  incoming_.open = false;
  sink.finish(incoming_);
}

bool Receiver::consume(Sink& sink, Outcome& outcome) {
  for (;;) {
    if (incoming_.open) {
      const size_t part = std::min(end_ - begin_, static_cast<size_t>(incoming_.frame.bytes) - incoming_.got);
      if (part > 0) std::memcpy(incoming_.target + incoming_.got, buffer_.get() + begin_, part);
      incoming_.got += part;
      begin_ += part;
      if (incoming_.got < incoming_.frame.bytes) return true;
      finish(sink);
      outcome.moved = true;
    }
    if (end_ - begin_ < sizeof(Frame)) return true;
    if (!sink.may_begin()) return false;
    incoming_ = {};
    std::memcpy(&incoming_.frame, buffer_.get() + begin_, sizeof(Frame));
    outcome.failure = sink.begin(incoming_);
    if (!outcome.failure.ok()) return false;
    begin_ += sizeof(Frame);
    incoming_.open = true;
  }
}

Receiver::Outcome Receiver::read(int fd, Sink& sink, size_t most) {
  Outcome outcome;
  for (size_t taken = 0;;) {
    if (!consume(sink, outcome)) {
      outcome.stop = outcome.failure.ok() ? Stop::full : Stop::failed;
      return outcome;
    }
    // What is left in the buffer is less than a frame: it moves to the front, so there is always room behind it.
    if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (taken >= most || (!in_message() && !sink.may_begin())) {
      outcome.stop = Stop::full;
      return outcome;
    }
    const size_t open = incoming_.open ? static_cast<size_t>(incoming_.frame.bytes) - incoming_.got : 0;
    iovec parts[2] = {{incoming_.target + incoming_.got, open}, {buffer_.get() + end_, kBufferBytes - end_}};
    const size_t skip = open > 0 ? 0 : 1;
    const Moved moved = read_scatter(fd, parts + skip, 2 - skip);
    if (moved.end || moved.error != 0) {
      outcome.stop = moved.end ? Stop::ended : Stop::failed;
      outcome.error = moved.error;
      return outcome;
    }
    if (moved.would_block) return outcome;
    outcome.moved = true;
    taken += moved.bytes;
    const size_t direct = std::min(moved.bytes, open);
    if (direct > 0) incoming_.got += direct;
    end_ += moved.bytes - direct;
    // Less than was asked for: the socket is empty, which spares a call that would only say so.
    if (moved.bytes == open + kBufferBytes - (end_ - (moved.bytes - direct))) continue;
    if (!consume(sink, outcome)) outcome.stop = outcome.failure.ok() ? Stop::full : Stop::failed;
    return outcome;
  }
}

}  // namespace rondo::tcp
