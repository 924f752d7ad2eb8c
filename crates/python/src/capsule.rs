//! Tables handed over by the Arrow PyCapsule interface: pyarrow, Polars, pandas and others take and give them without a copy.

use crate::Error;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;

const NAME: &CStr = c"arrow_array_stream";

/// A capsule that hands these batches over.
pub(crate) fn give<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), NAME)
}

/// The batches of a table that has `__arrow_c_stream__`.
///
/// # Errors
/// If it has not, or it fails.
pub(crate) fn take(table: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast_into::<PyCapsule>().map_err(|_| PyTypeError::new_err("__arrow_c_stream__ gave no capsule"))?;
    let stream = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>().as_ptr();
    // SAFETY: a capsule of that name holds such a structure by the interface's definition; it is moved out, and what stays is a released
    // one, which the capsule's destructor leaves alone. The interpreter's lock is held, so nobody else takes it meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    let failed = |error: arrow_schema::ArrowError| Error::new_err(error.to_string());
    let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let batches = reader.collect::<Result<_, _>>().map_err(failed)?;
    Ok((schema, batches))
}
