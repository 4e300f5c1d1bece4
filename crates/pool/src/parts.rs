//! Disjoint parts of one slice: an exclusive slice goes in, exclusive rows and columns of it come out, for several
//! threads at once; it never decides who gets which.

use std::marker::PhantomData;
use std::ops::Range;

/// Part `i` of `0..count` cut in `parts`, which differ in length by one at most.
///
/// For `i` in `0..parts` the results are disjoint and cover `0..count`.
pub(crate) fn split(count: usize, parts: usize, i: usize) -> Range<usize> {
    let (short, longer) = (count / parts, count % parts);
    let start = i * short + i.min(longer);
    start..start + short + usize::from(i < longer)
}

/// The rows of an exclusively borrowed slice, to be taken by several threads.
pub(crate) struct Parts<'a, T> {
    base: *mut T,
    count: usize,
    row_len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: all that sharing this allows is `take`, whose caller promises one taker for each row; `T` may change threads.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// `slice` as `[n, row_len]`; an empty one has no rows, whatever their length.
    pub(crate) fn new(slice: &'a mut [T], row_len: usize) -> Parts<'a, T> {
        let count = rows_in(slice.len(), row_len);
        Parts { base: slice.as_mut_ptr(), count, row_len, borrow: PhantomData }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Row `i`.
    ///
    /// # Safety
    /// Each row is taken once from this value.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that each row is taken once")]
    pub(crate) unsafe fn take(&self, i: usize) -> &mut [T] {
        assert!(i < self.count, "pool: no such row");
        // SAFETY: `i < count` was asserted, and `new` found `count` whole rows in the slice.
        let start = unsafe { self.base.add(i * self.row_len) };
        // SAFETY: inside the slice that `borrow` holds, as above; nobody else has this row by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, self.row_len) }
    }
}

/// An exclusively borrowed row-major matrix, whose columns are to be given to several threads.
pub(crate) struct Matrix<'a> {
    base: *mut f32,
    rows: usize,
    width: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: all that sharing this allows is `columns`, whose caller promises disjoint ranges.
unsafe impl Sync for Matrix<'_> {}

impl<'a> Matrix<'a> {
    /// `slice` as `[t, width]`.
    pub(crate) fn new(slice: &'a mut [f32], width: usize) -> Matrix<'a> {
        let rows = rows_in(slice.len(), width);
        Matrix { base: slice.as_mut_ptr(), rows, width, borrow: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Columns `first..end` of every row.
    ///
    /// # Safety
    /// The ranges asked of this value are disjoint.
    pub(crate) unsafe fn columns(&self, first: usize, end: usize) -> Columns<'_> {
        assert!(first <= end && end <= self.width, "pool: no such columns");
        Columns { matrix: self, first, len: end - first }
    }
}

/// Exclusive access to a range of columns of every row of a matrix `[t, width]`.
pub struct Columns<'a> {
    matrix: &'a Matrix<'a>,
    first: usize,
    len: usize,
}

impl Columns<'_> {
    /// The first column.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of columns, 1 at least.
    #[expect(clippy::len_without_is_empty, reason = "there is always a column")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of rows, 1 at least.
    pub fn rows(&self) -> usize {
        self.matrix.rows
    }

    /// These columns of row `t`.
    ///
    /// # Panics
    /// When `t` is not below [`Columns::rows`].
    pub fn row_mut(&mut self, t: usize) -> &mut [f32] {
        assert!(t < self.matrix.rows, "pool: no such row");
        // SAFETY: `t < rows` was asserted, and `Matrix::columns` found `first + len <= width`: inside the matrix.
        let start = unsafe { self.matrix.base.add(t * self.matrix.width + self.first) };
        // SAFETY: inside the matrix, as above; `Matrix::columns` was promised that nobody else has these columns, and
        // `&mut self` that this thread has one row of them at a time.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

fn rows_in(len: usize, row_len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    assert!(row_len > 0 && len.is_multiple_of(row_len), "pool: {len} values are not whole rows of {row_len}");
    len / row_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_covers_the_range_in_parts_that_differ_by_one() {
        for count in 0..if cfg!(miri) { 5 } else { 60 } {
            for parts in 1..if cfg!(miri) { 4 } else { 20 } {
                let cuts: Vec<_> = (0..parts).map(|i| split(count, parts, i)).collect();
                assert!(cuts.iter().cloned().flatten().eq(0..count), "{count} in {parts}");
                assert!(cuts.iter().all(|cut| cut.len().abs_diff(count / parts) <= 1), "{count} in {parts}");
            }
        }
    }

    #[test]
    fn a_split_of_the_longest_range_does_not_overflow() {
        assert_eq!(split(usize::MAX, 3, 2).end, usize::MAX);
    }

    #[test]
    #[should_panic(expected = "7 values are not whole rows of 2")]
    fn rows_must_be_whole() {
        Parts::new(&mut [0; 7], 2);
    }

    #[test]
    #[should_panic(expected = "not whole rows of 0")]
    fn rows_must_have_a_length() {
        Parts::new(&mut [0; 7], 0);
    }
}
