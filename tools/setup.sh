# shellcheck shell=bash
# Sourced by tools/demo, tools/test and .ci/run: installs the Debian packages that Rondo needs and this machine lacks,
# and builds. Everything it does is printed first.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

packages=(
  g++ cmake ninja-build pkg-config python3              # build and checks
  libfmt-dev libsodium-dev libhwy-dev                   # library
  libcli11-dev nlohmann-json3-dev                       # programs
  libdnnl-dev zlib1g-dev dataset-fashion-mnist          # trainer
  catch2                                                # tests
)

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || printf '%s\n' "$package"
  done
}

# retry TIMES COMMAND...: networks fail now and then; waits 5 s longer after each failure.
retry() {
  local times=$1 attempt
  shift
  for ((attempt = 1; ; ++attempt)); do
    "$@" && return 0
    ((attempt < times)) || return 1
    say "failed: $* (attempt $attempt of $times)"
    sleep $((attempt * 5))
  done
}

install_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: needs what Debian calls ${packages[*]}"
    return 0
  fi
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "all packages are installed"
    return 0
  fi
  if ((EUID != 0)); then
    die "packages are missing; run once: sudo apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  retry 4 apt-get -q update </dev/null || die "apt-get update failed"
  retry 4 apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null || die "apt-get install failed"
}

# Under sudo only the installing needs root: what is built belongs to the user whose checkout this is.
drop_sudo() {
  if ((EUID == 0)) && [[ -n ${SUDO_USER:-} && $SUDO_USER != root && $(stat -c %U "$root") == "$SUDO_USER" ]]; then
    exec runuser -u "$SUDO_USER" -- env -u SUDO_USER "$0" "$@"
  fi
}

# build FOLDER [CMAKE OPTION...]: configures and builds everything with all CPUs.
build() {
  local folder=$1 generator=()
  shift
  [[ -f $folder/CMakeCache.txt ]] || generator=(-G Ninja)
  say "building in $folder"
  cmake -S "$root" -B "$folder" "${generator[@]}" "$@"
  cmake --build "$folder" --parallel "$(nproc)"
}
