// Does a process stand still because somebody stopped it: by a signal, a debugger, or a frozen control group (scontrol suspend)?
// Sources: proc_pid_stat(5), the field state; Linux's Documentation/admin-guide/cgroup-v2.rst, cgroup.events; cgroup-v1/freezer-subsystem.rst.
#pragma once

namespace fikit::dispatcher {

// Reads /proc and /sys: some 20 us. pid: as fikitd sees it; 0: not known. False also where nothing can be read.
bool is_stopped(int pid);

} // namespace fikit::dispatcher
