# Before a package goes for good: where Slurm is still told to load its files, it refuses every job and drains the nodes
# (plugstack.conf says `required`, and Lua's dofile() fails).
loaded=$(grep -rlsE --include='*.conf' --include='*.lua' '^[[:space:]]*[^-#[:space:]].*/usr/lib/fikit/native/slurm/' /etc/slurm || true)
if [ -n "$loaded" ]; then
  echo "fikit: Slurm still loads what is to go, and without it no job would start: take the lines with /usr/lib/fikit out of" $loaded >&2
  exit 1
fi
