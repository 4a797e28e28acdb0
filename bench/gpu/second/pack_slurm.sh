#!/usr/bin/env bash
# Packs Debian's Slurm and munge for the part `slurm` of the kit's second call, for a machine with a GPU and without Slurm.
# Needs Debian, its package sources, and fikit built with the plugin (`make build`, libslurm-dev). Installs nothing.
# Writes build/slurm/slurm.tar.gz and build/slurm/MANIFEST: carry that folder to the machine together with the checkout.
# BENCH_PYTHON names a Python that has fikit; default .venv/bin/python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
python=${BENCH_PYTHON:-.venv/bin/python}
out=build/slurm
most_kib=16384

# The libraries are those that Slurm's programs need and a small Ubuntu may lack. Some have another name since Debian 13.
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15 liblua5.1-0 libnuma1 libpam0g libaudit1
  libcap-ng0 liblz4-1 libreadline8 libgcrypt20 libgpg-error0 libbz2-1.0 libjson-c5 libtinfo6 libudev1)

fail() { echo "pack_slurm.sh: $*" >&2; exit 1; }

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "couldn't fetch packages: this system is not a Debian"
command -v "$python" >/dev/null || fail "couldn't find $python: run make build, or name a Python with fikit in BENCH_PYTHON"
plugin=$("$python" -c 'from fikitd import paths; print(paths.slurm_dir())') || fail "couldn't find fikit in $python: run make build"
[ -e "$plugin/spank_fikit.so" ] || fail "couldn't find $plugin/spank_fikit.so: install libslurm-dev and run make build"
modules=$("$python" -c 'import pynvml, tomlkit; print(pynvml.__file__, tomlkit.__path__[0])') ||
  fail "couldn't find pynvml and tomlkit in $python: run make setup"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{debs,lists/partial,root/fikit/python}
apt=(-q -o APT::Sandbox::User=root)

# apt-get download finds nothing where the machine's package lists were deleted: then come lists of our own.
if ! apt-cache show slurmctld >/dev/null 2>&1; then
  apt+=(-o "Dir::State::Lists=$work/lists")
  apt-get "${apt[@]}" update >"$work/log" 2>&1 || fail "couldn't read the package lists: $(tail -n 1 "$work/log")"
fi
mapfile -t wanted < <(apt-cache "${apt[@]}" policy "${packages[@]}" "${packages[@]/%/t64}" |
  awk '/^[^ ]/ {name = $1; sub(":$", "", name)} /Candidate:/ && $2 != "(none)" {print name}')
(cd "$work/debs" && apt-get "${apt[@]}" download "${wanted[@]}") >"$work/log" 2>&1 ||
  fail "couldn't fetch the packages: $(grep -m 1 '^E:' "$work/log" || tail -n 1 "$work/log")"
for deb in "$work"/debs/*.deb; do
  dpkg-deb -x "$deb" "$work/root"
  printf '%s %s\n' "$(dpkg-deb -W "$deb" | tr '\t' ' ')" "$(sha256sum <"$deb" | cut -d ' ' -f 1)"
done >"$work/MANIFEST"

built=$("$python" -m fikit.slurm.versions "$plugin/spank_fikit.so")
fetched=$(sed -n 's/^slurmctld \([0-9]*\.[0-9]*\).*/\1/p' "$work/MANIFEST")
[ "$built" = "$fetched" ] || fail "couldn't use $plugin/spank_fikit.so: it was built for Slurm $built, and the packages are $fetched"
cp -r "$plugin" "$work/root/fikit/slurm"
# shellcheck disable=SC2086 # two paths
cp -r $modules "$work/root/fikit/python/"
# Debian's alternatives name the daemons, and Slurm's plugins ask for that name.
for daemon in "$work"/root/usr/sbin/*-wlm; do mv "$daemon" "${daemon%-wlm}"; done
rm -rf "$work"/root/usr/share "$work"/root/etc "$work"/root/var "$work"/root/lib/systemd
find "$work/root" -name __pycache__ -prune -exec rm -r {} +

mkdir -p "$out"
tar --owner=0 --group=0 --sort=name -C "$work/root" -czf "$work/slurm.tar.gz" .
kib=$(($(stat -c %s "$work/slurm.tar.gz") / 1024))
[ "$kib" -le "$most_kib" ] || fail "couldn't keep $out/slurm.tar.gz: it has $kib KiB, and the limit is $most_kib KiB"
mv "$work/slurm.tar.gz" "$work/MANIFEST" "$out/"
echo "$out: $kib KiB, Slurm $fetched for glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2) or newer"
