"""NVIDIA's MPS for sharing jobs: its programs (programs.py), how one speaks with them (control.py), what fikitd notes (notes.py), servers
(servers.py), their clients (members.py), who joins (clients.py)."""
