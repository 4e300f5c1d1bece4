//! Graphs are built, bound and compared.
