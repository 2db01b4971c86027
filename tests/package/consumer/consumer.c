/* A user's C99 program: rank 0 of 1 when nothing launched it. */
#include <rondo/rondo.h>
#include <stdio.h>

int main(void) {
  rondo_options options = RONDO_OPTIONS_INIT;
  rondo_comm* comm = NULL;
  float in[3] = {1.0f, 2.0f, 3.0f}, out[3] = {0.0f, 0.0f, 0.0f};
  char text[256];

  if (rondo_version() != RONDO_VERSION) {
    fprintf(stderr, "header %d, library %u\n", RONDO_VERSION, (unsigned)rondo_version());
    return 1;
  }
  if (rondo_init(&options, &comm) != RONDO_OK) {
    rondo_error_text(NULL, text, sizeof text);
    fprintf(stderr, "init: %s\n", text);
    return 1;
  }
  if (rondo_allreduce(comm, in, out, 3, RONDO_FLOAT32, RONDO_SUM, NULL) != RONDO_OK) {
    rondo_error_text(comm, text, sizeof text);
    fprintf(stderr, "allreduce: %s\n", text);
    return 1;
  }
  if (rondo_world(comm) != 1 || out[0] != 1.0f || out[1] != 2.0f || out[2] != 3.0f) {
    fprintf(stderr, "wrong sum %g %g %g in a world of %d\n", out[0], out[1], out[2], (int)rondo_world(comm));
    return 1;
  }
  return rondo_destroy(comm) == RONDO_OK ? 0 : 1;
}
