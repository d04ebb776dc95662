//! Experiments: plan, variants, running them, analysing, recommending.
