"""Accounting for a sandbox: slurmdbd and the MariaDB below it, both in the sandbox's directory and without a network but slurmdbd's port.

The database asks nobody who he is: its socket is in a directory that only root may enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGES = "slurmdbd slurm-wlm-mysql-plugin mariadb-server-core"
DATABASE = "slurm"
PROGRAMS = ("mariadbd", "slurmdbd", "sacctmgr", "sacct")
# slurmdbd's stored procedures are rows of one of these. Without them slurmctld 22.05 crashes at the first user's association.
SYSTEM_TABLES = [Path(f"/usr/share/{name}/{name}_system_tables.sql") for name in ("mariadb", "mysql")]


@dataclass(frozen=True)
class Accounting:
    """Where it lies and what it needs to know."""

    root: Path
    hostname: str
    port: int
    munge_socket: Path
    logs: Path

    @property
    def directory(self) -> Path:
        return self.root / "db"

    @property
    def socket(self) -> Path:
        return self.directory / "socket"

    @property
    def environment(self) -> dict[str, str]:
        """By which slurmdbd's client library finds the database."""
        return {"MYSQL_UNIX_PORT": str(self.socket)}

    def make(self) -> None:
        self.directory.mkdir(mode=0o700)
        (self.directory / "data").mkdir()
        tables = next(path for path in SYSTEM_TABLES if path.exists())
        # slurmdbd would make its own. Through MariaDB's client library 3.4.10 (sid's) it cannot: a connection that was refused
        # once, for want of the database, has lost its limits, and takes answers of "(=0)" columns only.
        text = f"CREATE DATABASE {DATABASE};\nCREATE DATABASE mysql;\nUSE mysql;\n" + tables.read_text()
        (self.directory / "init.sql").write_text(text)

    def database(self) -> list[str]:
        """The command of MariaDB: nobody misses what it has not written when the sandbox ends."""
        return [
            "mariadbd", "--no-defaults", "--user=root", "--skip-grant-tables", "--skip-networking",
            f"--datadir={self.directory / 'data'}", f"--socket={self.socket}", f"--pid-file={self.directory / 'pid'}",
            f"--init-file={self.directory / 'init.sql'}",
            "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
        ]  # fmt: skip

    def slurmdbd_conf(self) -> str:
        return f"""\
AuthType=auth/munge
AuthInfo=socket={self.munge_socket}
DbdHost={self.hostname}
DbdAddr=127.0.0.1
DbdPort={self.port}
SlurmUser=root
PidFile={self.root}/slurmdbd.pid
LogFile={self.logs}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StoragePass=none
StorageLoc={DATABASE}
"""

    def slurm_conf(self) -> list[str]:
        """Lines of slurm.conf: what docs/admin.md recommends, in the place of accounting_storage/none."""
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self.port}",
            f"AccountingStoragePass={self.munge_socket}",  # which is what it means with auth/munge
            "AccountingStorageTRES=gres/gpu,gres/shard",
            "AccountingStorageEnforce=associations,limits,qos",
        ]
