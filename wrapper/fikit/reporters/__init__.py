"""One file per form: table (rich), json, line, picture. A reporter gets finished data and decides nothing but looks."""
