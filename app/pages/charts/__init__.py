"""Charts as SVG, drawn here: they print, mail and test. One chart per module, styled by classes alone."""
