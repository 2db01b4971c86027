#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/launcher.h"

using namespace rondo;

namespace {

Config config_of(const std::vector<const char*>& environment) { return Config::from(environment, nullptr).value(); }

Placement placed(const std::vector<const char*>& environment, uint32_t user = 1000, int64_t parent = 77) {
  return placement(config_of(environment), user, parent).value();
}

std::string refused(const std::vector<const char*>& environment) {
  const auto result = placement(config_of(environment), 1000, 77);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == Code::invalid);
  return result.status().text();
}

}  // namespace

TEST_CASE("launcher: without any launcher this is rank 0 of 1") {
  const Placement alone = placed({"PATH=/bin", "SLURM_NTASKS=4", "RANK=2"});
  CHECK(alone.family == "none");
  CHECK(alone.rank == 0);
  CHECK(alone.world == 1);
  CHECK(alone.rendezvous.empty());
}

TEST_CASE("launcher: each family's four variables are understood") {
  struct Case {
    std::vector<const char*> environment;
    const char* family;
  };
  const Case c =
      GENERATE(Case{{"RONDO_RANK=2", "RONDO_WORLD=4", "RONDO_LOCAL_RANK=2", "RONDO_LOCAL_WORLD=4"}, "rondo"},
               Case{{"HOROVOD_RANK=2", "HOROVOD_SIZE=4", "HOROVOD_LOCAL_RANK=2", "HOROVOD_LOCAL_SIZE=4"}, "horovod"},
               Case{{"RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4"}, "torchrun"},
               Case{{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=2",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_RANK=2"},
                    "open mpi"},
               Case{{"PMI_RANK=2", "PMI_SIZE=4", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=4"}, "pmi"});
  const Placement p = placed(c.environment);
  CHECK(p.family == c.family);
  CHECK(p.rank == 2);
  CHECK(p.world == 4);
  CHECK(p.local_rank == 2u);
  CHECK(p.local_world == 4u);
}

TEST_CASE("launcher: the first family that has both numbers wins, never a mix") {
  const Placement p =
      placed({"SLURM_PROCID=0", "SLURM_NTASKS=16", "RANK=1", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=5"});
  CHECK(p.family == "open mpi");
  CHECK(p.rank == 3);
  CHECK(p.world == 5);
  CHECK(placed({"RONDO_RANK=1", "RONDO_WORLD=2", "RANK=7", "WORLD_SIZE=8"}).world == 2);
}

TEST_CASE("launcher: numbers from rondo_options count as the family options") {
  Config config = config_of({"RANK=7", "WORLD_SIZE=8"});
  REQUIRE(config.set(Key::rank, "1", Source::options).ok());
  REQUIRE(config.set(Key::world, "3", Source::options).ok());
  const auto p = placement(config, 0, 1);
  REQUIRE(p.ok());
  CHECK(p.value().family == "options");
  CHECK(p.value().world == 3);
}

TEST_CASE("launcher: what contradicts itself is refused by name") {
  CHECK(refused({"RONDO_RANK=1"}) == "RONDO_RANK is given without RONDO_WORLD");
  CHECK(refused({"RONDO_WORLD=2"}) == "RONDO_WORLD is given without RONDO_RANK");
  CHECK(refused({"RONDO_RANK=2", "RONDO_WORLD=2"}) ==
        "RONDO_RANK=2 with RONDO_WORLD=2: a rank lies between 0 and the world less 1");
  CHECK(refused({"RANK=0", "WORLD_SIZE=0"}).find("WORLD_SIZE=0") != std::string::npos);
  CHECK(refused({"PMI_RANK=x", "PMI_SIZE=2"}) == "PMI_RANK=x: expected a whole number");
  CHECK(refused({"PMI_RANK=-1", "PMI_SIZE=2"}) == "PMI_RANK=-1: expected a whole number");
  CHECK(refused({"PMIX_RANK=1"}).find("number of ranks") != std::string::npos);
}

TEST_CASE("launcher: srun with pmix takes both numbers from slurm") {
  const Placement p = placed({"PMIX_RANK=1", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_NNODES=1",
                              "SLURM_JOB_ID=5", "SLURM_STEP_ID=0"});
  CHECK(p.family == "slurm");
  CHECK(p.local_rank == 1u);
  CHECK_FALSE(p.local_world.has_value());
  CHECK(p.rendezvous.rfind("unix://rondo-1000-", 0) == 0);
}

TEST_CASE("launcher: ranks of one job on one host meet, other jobs, restarts and users do not") {
  const auto torch = [](const char* rank, const char* port, const char* restart, uint32_t user) {
    return placed({rank, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=localhost", port, restart}, user)
        .rendezvous;
  };
  const std::string first = torch("RANK=0", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=0", 1000);
  CHECK(first.rfind("unix://rondo-1000-", 0) == 0);
  CHECK(torch("RANK=1", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=0", 1000) == first);
  CHECK(torch("RANK=0", "MASTER_PORT=29501", "TORCHELASTIC_RESTART_COUNT=0", 1000) != first);
  CHECK(torch("RANK=0", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=1", 1000) != first);
  CHECK(torch("RANK=0", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=0", 1001) != first);
  const auto hydra = [](int64_t parent) {
    return placed({"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=2"}, 1000, parent).rendezvous;
  };
  CHECK(hydra(77) == hydra(77));
  CHECK(hydra(77) != hydra(78));
}

TEST_CASE("launcher: several hosts meet where the launcher says, but never on torchrun's own port") {
  const auto torch = [](const char* host, const char* restart) {
    return placed({"RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", host, "MASTER_PORT=29500", restart}).rendezvous;
  };
  const std::string first = torch("MASTER_ADDR=10.0.0.7", "TORCHELASTIC_RESTART_COUNT=0");
  CHECK(first.rfind("probe://10.0.0.7:29500/", 0) == 0);
  CHECK(torch("MASTER_ADDR=10.0.0.7", "TORCHELASTIC_RESTART_COUNT=1") != first);
  CHECK(torch("MASTER_ADDR=fd00::7", "TORCHELASTIC_RESTART_COUNT=0").rfind("probe://[fd00::7]:29500/", 0) == 0);
  const Placement slurm = placed({"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_NNODES=2",
                                  "SLURM_STEP_NODELIST=gpu[07-08]", "SLURM_JOB_ID=5", "SLURM_STEP_ID=0"});
  CHECK(slurm.rendezvous.rfind("tcp://gpu07:2", 0) == 0);
  CHECK(
      placed({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"}).rendezvous.empty());
  CHECK(placed({"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.7", "MASTER_PORT=65535"}).rendezvous.empty());
}

TEST_CASE("launcher: RONDO_RENDEZVOUS decides over the launcher's address") {
  CHECK(placed({"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "RONDO_RENDEZVOUS=file:///shared/x"})
            .rendezvous == "file:///shared/x");
}

TEST_CASE("launcher: the first host of a slurm node list is found") {
  CHECK(first_slurm_host("login") == "login");
  CHECK(first_slurm_host("a,b") == "a");
  CHECK(first_slurm_host("gpu[07-09,12],login") == "gpu07");
  CHECK(first_slurm_host("gpu[3,5].cluster,x") == "gpu3.cluster");
  CHECK(first_slurm_host("gpu[").empty());
  CHECK(first_slurm_host("gpu[]").empty());
  CHECK(first_slurm_host("gpu[x-9]").empty());
  CHECK(first_slurm_host("").empty());
}
