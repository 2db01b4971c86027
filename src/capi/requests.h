// The collectives of rondo.h as Requests, one function each, for the calls and for their persistent forms. Element type
// and operator are added by typed(), which checks them.
#pragma once

#include "capi/face.h"
#include "exec/request.h"

namespace rondo::capi {

struct Types {
  rondo_dtype dtype = RONDO_UINT8;
  rondo_redop redop = RONDO_SUM;
};

inline Result<Request> typed(Request request, Types types) {
  const auto dtype = dtype_of(types.dtype);
  if (!dtype.ok()) return dtype.status();
  const auto redop = redop_of(types.redop);
  if (!redop.ok()) return redop.status();
  request.dtype = dtype.value();
  request.op = redop.value();
  return request;
}

inline Request whole(Collective collective, const void* in, void* out, size_t count, int32_t root = 0) {
  return {.collective = collective, .input = in, .output = out, .count = count, .root = root};
}

inline Request allgatherv_request(const void* in, size_t in_count, void* out, const size_t* counts,
                                  const size_t* displs) {
  return {.collective = Collective::allgather,
          .input = in,
          .output = out,
          .count = in_count,
          .vector_form = true,
          .output_counts = counts,
          .output_displs = displs};
}

inline Request reduce_scatterv_request(const void* in, void* out, const size_t* counts) {
  return {.collective = Collective::reduce_scatter,
          .input = in,
          .output = out,
          .vector_form = true,
          .input_counts = counts};
}

inline Request alltoallv_request(const void* in, const size_t* in_counts, const size_t* in_displs, void* out,
                                 const size_t* out_counts, const size_t* out_displs) {
  return {.collective = Collective::alltoall,
          .input = in,
          .output = out,
          .vector_form = true,
          .input_counts = in_counts,
          .input_displs = in_displs,
          .output_counts = out_counts,
          .output_displs = out_displs};
}

}  // namespace rondo::capi
