"""How fikit says things: quantities, reasons, verdicts and single lines in words. Everything may use it; it knows fikitd's formats only."""
