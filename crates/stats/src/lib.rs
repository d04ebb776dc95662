//! Pure mathematics: quantiles with intervals, paired comparisons, growth models. No I/O.
