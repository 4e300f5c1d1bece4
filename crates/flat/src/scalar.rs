//! Little-endian numbers as a FlatBuffer stores them; bytes go in, a number comes out.

/// A number that a FlatBuffer can store.
pub trait Scalar: Copy + private::Sealed {
    /// Bytes it takes.
    const SIZE: u64;

    /// Reads it from exactly [`SIZE`](Scalar::SIZE) bytes.
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! scalars {
    ($($number:ty),*) => {$(
        impl private::Sealed for $number {}

        impl Scalar for $number {
            const SIZE: u64 = size_of::<$number>() as u64;

            fn read(bytes: &[u8]) -> Self {
                <$number>::from_le_bytes(bytes.try_into().expect("the reader takes exactly the size of the number"))
            }
        }
    )*};
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl private::Sealed for bool {}

impl Scalar for bool {
    const SIZE: u64 = 1;

    fn read(bytes: &[u8]) -> bool {
        u8::read(bytes) != 0
    }
}
