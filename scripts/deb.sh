#!/usr/bin/env bash
# `make deb`: fikit (all but the plugin) and fikit-slurm (the plugin for one release line of Slurm) as Debian packages in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."
plugin=$1 # directory that `make slurm-plugin` filled
python=.venv/bin/python
version=$($python -c 'import fikitd; print(fikitd.__version__)')
line=$($python -m fikit.slurm.versions "$plugin/spank_fikit.so")
minor=$($python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
arch=$(dpkg --print-architecture)
stage=build/deb

bash scripts/stage.sh "$plugin" $stage
mkdir -p $stage/debian dist
slurm=$(realpath --relative-to=$stage/fikit $stage/fikit/usr/lib/fikit/native/slurm)

# The libraries of the system that the programs of the package need; those of wheels bring their own.
printf 'Source: fikit\n\nPackage: fikit\nArchitecture: any\n' >$stage/debian/control
depends=$(cd $stage && find fikit/usr/lib/fikit/lib -path '*/fikitd/*' \( -name '*.so*' -o -path '*/bin/*' \) -type f -print0 |
  xargs -0 dpkg-shlibdeps -O --ignore-missing-info -Sfikit -l"$PWD/fikit/$(dirname "$slurm")/emulator" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')

control() { # PACKAGE VERSION DEPENDS BREAKS DESCRIPTION
  mkdir -p "$stage/$1/DEBIAN"
  cat >"$stage/$1/DEBIAN/control" <<EOF
Package: $1
Version: $2
Architecture: $arch
Maintainer: fikit <fikit@localhost>
Section: admin
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$stage/$1" | cut -f1)
Depends: $3${4:+
Breaks: $4}
Description: $5
EOF
}
control fikit "$version" "$minor, $depends" "" "share one GPU between Slurm jobs by priority
 Low-priority kernels run in a high-priority job's idle time. This package has the daemon, the preload
 library, the commands and the emulated GPU; fikit-slurm has the plugin for one release line of Slurm."
next=$(printf '%s' "$line" | awk -F. '{printf "%s.%02d", $1, $2 + 1}')
breaks=""
for package in slurmd slurmctld slurm-client slurm-smd slurm-smd-client slurm-smd-slurmd slurm-smd-slurmctld; do
  breaks="$breaks${breaks:+, }$package (<< $line), $package (>= $next~)"
done
control fikit-slurm "$version+slurm$line" "fikit (= $version)" "$breaks" "fikit's plugin for Slurm $line
 Slurm loads plugins of its own release line only: install the one that was built for yours."
echo /etc/fikit/fikit.toml >$stage/fikit/DEBIAN/conffiles
cat >$stage/fikit/DEBIAN/postinst <<'EOF'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  systemd-tmpfiles --create fikit.conf || true
fi
EOF
# Both ask, because apt goes on with the one when the other refuses.
for package in fikit fikit-slurm; do
  printf '#!/bin/sh\nset -e\nif [ "$1" = remove ]; then\n%s\nfi\n' "$(cat scripts/still_loaded.sh)" >$stage/$package/DEBIAN/prerm
done
cat >>$stage/fikit/DEBIAN/prerm <<'EOF'
# An upgrade leaves the running daemon to its jobs; the next one is the new.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl stop fikitd.service fikit-place-clear.timer fikit-place.service || true; fi
find /usr/lib/fikit -name __pycache__ -type d -prune -exec rm -rf {} +
EOF
cat >$stage/fikit/DEBIAN/postrm <<'EOF'
#!/bin/sh
set -e
if [ "$1" = purge ]; then rm -rf /run/fikit; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
EOF
chmod 755 $stage/fikit*/DEBIAN/p*
for package in fikit fikit-slurm; do
  dpkg-deb --root-owner-group -Zgzip --build $stage/$package dist/ >/dev/null
done
printf 'deb: dist/%s\n' "fikit_${version}_$arch.deb" "fikit-slurm_${version}+slurm${line}_$arch.deb"
