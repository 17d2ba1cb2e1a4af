//! GPUs through the CUDA driver API (`cuda.h`), whose library is loaded if the machine has it.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem::transmute,
    ptr::{null, null_mut},
    time::{Duration, Instant},
};

use crate::{MeasureError, matrix};

/// Bytes of one copy.
const COPIED: usize = 256 << 20;
/// Rows and columns of the matrices; a multiple of `SIDE`.
const ROWS: usize = 2048;
/// Threads per block in each dimension.
const SIDE: c_uint = 16;

/// PTX kernel that multiplies two matrices, with one thread for each element of the product.
const PRODUCT: &CStr = c".version 6.0
.target sm_50
.address_size 64
.visible .entry product(.param .u64 left, .param .u64 right, .param .u64 out, .param .u32 rows)
{
  .reg .pred %more;
  .reg .b32 %x<12>;
  .reg .f32 %f<3>;
  .reg .b64 %a<12>;
  mov.u32 %x0, %ctaid.x; mov.u32 %x1, %ntid.x; mov.u32 %x2, %tid.x; mad.lo.u32 %x3, %x0, %x1, %x2;
  mov.u32 %x4, %ctaid.y; mov.u32 %x5, %ntid.y; mov.u32 %x6, %tid.y; mad.lo.u32 %x7, %x4, %x5, %x6;
  ld.param.u64 %a0, [left]; ld.param.u64 %a1, [right]; ld.param.u64 %a2, [out]; ld.param.u32 %x8, [rows];
  cvta.to.global.u64 %a0, %a0; cvta.to.global.u64 %a1, %a1; cvta.to.global.u64 %a2, %a2;
  mul.lo.u32 %x9, %x7, %x8;
  mul.wide.u32 %a3, %x9, 4; add.u64 %a4, %a0, %a3;
  mul.wide.u32 %a5, %x3, 4; add.u64 %a6, %a1, %a5;
  mul.wide.u32 %a7, %x8, 4;
  mov.f32 %f0, 0f00000000;
  mov.u32 %x10, 0;
NEXT:
  ld.global.f32 %f1, [%a4]; ld.global.f32 %f2, [%a6]; fma.rn.f32 %f0, %f1, %f2, %f0;
  add.u64 %a4, %a4, 4; add.u64 %a6, %a6, %a7; add.u32 %x10, %x10, 1;
  setp.lt.u32 %more, %x10, %x8;
  @%more bra NEXT;
  add.u32 %x11, %x9, %x3; mul.wide.u32 %a8, %x11, 4; add.u64 %a9, %a2, %a8;
  st.global.f32 [%a9], %f0;
  ret;
}
";

type Status = c_int;
type CudaHandle = *mut c_void;
type DeviceAddress = u64;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> CudaHandle;
    fn dlsym(library: CudaHandle, name: *const c_char) -> CudaHandle;
}

/// Resolve all symbols when the library is loaded (`RTLD_NOW`).
const NOW: c_int = 2;

/// Declares the functions of the driver with their types, and loads them.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($of:ty),*);)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($of),*) -> Status,)*
        }

        impl Functions {
            fn load(library: CudaHandle) -> Result<Self, MeasureError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the name is a C string, and the library is never unloaded.
                        let found = unsafe { dlsym(library, $symbol.as_ptr()) };
                        if found.is_null() {
                            return Err(MeasureError::Error(format!("libcuda.so.1 has no {}", $symbol.to_string_lossy())));
                        }
                        // SAFETY: cuda.h declares the function with these types.
                        unsafe { transmute::<CudaHandle, unsafe extern "C" fn($($of),*) -> Status>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    init = c"cuInit"(c_uint);
    error_name = c"cuGetErrorName"(Status, *mut *const c_char);
    count = c"cuDeviceGetCount"(*mut c_int);
    device = c"cuDeviceGet"(*mut c_int, c_int);
    name = c"cuDeviceGetName"(*mut c_char, c_int, c_int);
    retain = c"cuDevicePrimaryCtxRetain"(*mut CudaHandle, c_int);
    use_context = c"cuCtxSetCurrent"(CudaHandle);
    synchronize = c"cuCtxSynchronize"();
    allocate = c"cuMemAlloc_v2"(*mut DeviceAddress, usize);
    free = c"cuMemFree_v2"(DeviceAddress);
    set = c"cuMemsetD8_v2"(DeviceAddress, u8, usize);
    copy = c"cuMemcpyDtoD_v2"(DeviceAddress, DeviceAddress, usize);
    to_device = c"cuMemcpyHtoD_v2"(DeviceAddress, *const c_void, usize);
    to_host = c"cuMemcpyDtoH_v2"(*mut c_void, DeviceAddress, usize);
    load_module = c"cuModuleLoadData"(*mut CudaHandle, *const c_char);
    function = c"cuModuleGetFunction"(*mut CudaHandle, CudaHandle, *const c_char);
    launch = c"cuLaunchKernel"(CudaHandle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CudaHandle, *mut *mut c_void, *mut *mut c_void);
}

/// The driver's library. It is never unloaded.
pub struct CudaDriver(Functions);

/// A GPU with its context current on this thread.
pub struct CudaGpu<'a> {
    driver: &'a CudaDriver,
    device: c_int,
}

struct DeviceMemory<'a>(&'a CudaDriver, DeviceAddress);

impl CudaDriver {
    /// The driver; `None` if the machine has none, or no GPU.
    pub fn load() -> Result<Option<Self>, MeasureError> {
        // SAFETY: the name is a C string; the library's initialization has no precondition.
        let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), NOW) };
        if library.is_null() {
            return Ok(None);
        }
        let driver = Self(Functions::load(library)?);
        // SAFETY: the first call of the library; 0 is the only permitted flag.
        let status = unsafe { (driver.0.init)(0) };
        // 100 is CUDA_ERROR_NO_DEVICE; 34 is CUDA_ERROR_STUB_LIBRARY, a library without a driver.
        if status == 100 || status == 34 {
            return Ok(None);
        }
        driver.done("cuInit", status)?;
        Ok((driver.count()? > 0).then_some(driver))
    }

    fn done(&self, call: &str, status: Status) -> Result<(), MeasureError> {
        if status == 0 {
            return Ok(());
        }
        let mut name = null();
        // SAFETY: the pointer is written, to a static string or null.
        unsafe { (self.0.error_name)(status, &mut name) };
        // SAFETY: a name that is not null is a static C string.
        let name = if name.is_null() {
            "unknown"
        } else {
            unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("unknown")
        };
        Err(MeasureError::Error(format!("{call} failed: {name} ({status})")))
    }

    pub fn count(&self) -> Result<c_int, MeasureError> {
        let mut count = 0;
        // SAFETY: `count` is a local variable that outlives the call.
        self.done("cuDeviceGetCount", unsafe { (self.0.count)(&mut count) })?;
        Ok(count)
    }

    pub fn gpu(&self, index: c_int) -> Result<CudaGpu<'_>, MeasureError> {
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: the pointers are valid, and each call uses the result of the one before.
        unsafe {
            self.done("cuDeviceGet", (self.0.device)(&mut device, index))?;
            self.done("cuDevicePrimaryCtxRetain", (self.0.retain)(&mut context, device))?;
            self.done("cuCtxSetCurrent", (self.0.use_context)(context))?;
        }
        Ok(CudaGpu { driver: self, device })
    }

    fn memory(&self, bytes: usize) -> Result<DeviceMemory<'_>, MeasureError> {
        let mut address = 0;
        // SAFETY: the pointer is valid, and a context is current.
        self.done("cuMemAlloc", unsafe { (self.0.allocate)(&mut address, bytes) })?;
        Ok(DeviceMemory(self, address))
    }

    fn wait(&self) -> Result<(), MeasureError> {
        // SAFETY: a context is current.
        self.done("cuCtxSynchronize", unsafe { (self.0.synchronize)() })
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: the address was allocated and is freed once.
        unsafe { (self.0.0.free)(self.1) };
    }
}

impl CudaGpu<'_> {
    pub fn name(&self) -> Result<String, MeasureError> {
        let mut name = [0u8; 128];
        // SAFETY: the pointer is valid for the given length.
        let status = unsafe { (self.driver.0.name)(name.as_mut_ptr().cast(), 128, self.device) };
        self.driver.done("cuDeviceGetName", status)?;
        let name = CStr::from_bytes_until_nul(&name)
            .map_or(String::new(), |name| name.to_string_lossy().into_owned());
        Ok(name.replace(['(', ')'], ""))
    }

    /// Rate of copies within the GPU's memory, bytes read plus bytes written, GB/s.
    pub fn memory(&self, measured: Duration) -> Result<f64, MeasureError> {
        let driver = self.driver;
        let (from, to) = (driver.memory(COPIED)?, driver.memory(COPIED)?);
        // SAFETY: both buffers have this size.
        driver.done("cuMemsetD8", unsafe { (driver.0.set)(from.1, 1, COPIED) })?;
        let copy = || driver.done("cuMemcpyDtoD", unsafe { (driver.0.copy)(to.1, from.1, COPIED) });
        Ok(self.rate(measured, copy)? * 2.0 * COPIED as f64 / 1e9)
    }

    /// Rate of products of float matrices, TFLOP/s. The last product is checked.
    pub fn product(&self, measured: Duration) -> Result<f64, MeasureError> {
        let driver = self.driver;
        let bytes = ROWS * ROWS * size_of::<f32>();
        let (left, right, out) = (driver.memory(bytes)?, driver.memory(bytes)?, driver.memory(bytes)?);
        for (memory, element) in [(&left, matrix::left as fn(usize, usize) -> f32), (&right, matrix::right)] {
            let values = matrix::filled(ROWS, element);
            // SAFETY: source and destination have this size.
            driver.done("cuMemcpyHtoD", unsafe {
                (driver.0.to_device)(memory.1, values.as_ptr().cast(), bytes)
            })?;
        }
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the pointers are valid, and the texts are C strings.
        unsafe {
            driver.done("cuModuleLoadData", (driver.0.load_module)(&mut module, PRODUCT.as_ptr()))?;
            driver.done(
                "cuModuleGetFunction",
                (driver.0.function)(&mut function, module, c"product".as_ptr()),
            )?;
        }
        let (mut rows, blocks) = (ROWS as c_uint, ROWS as c_uint / SIDE);
        let mut addresses = [left.1, right.1, out.1];
        let [a, b, c] = &mut addresses;
        let mut arguments: [*mut c_void; 4] =
            [(a as *mut u64).cast(), (b as *mut u64).cast(), (c as *mut u64).cast(), (&raw mut rows).cast()];
        let launch = || {
            // SAFETY: the arguments have the kernel's types, and are valid until the call returns, which copies them.
            let status = unsafe {
                (driver.0.launch)(
                    function,
                    blocks,
                    blocks,
                    1,
                    SIDE,
                    SIDE,
                    1,
                    0,
                    null_mut(),
                    arguments.as_mut_ptr(),
                    null_mut(),
                )
            };
            driver.done("cuLaunchKernel", status)
        };
        let rate = self.rate(measured, launch)?;
        let mut product = vec![0f32; ROWS * ROWS];
        // SAFETY: source and destination have this size.
        driver
            .done("cuMemcpyDtoH", unsafe { (driver.0.to_host)(product.as_mut_ptr().cast(), out.1, bytes) })?;
        matrix::check(ROWS, &product)?;
        Ok(rate * matrix::operations(ROWS) / 1e12)
    }

    /// Executions per second, after warm-up executions.
    fn rate(
        &self,
        measured: Duration,
        mut execute: impl FnMut() -> Result<(), MeasureError>,
    ) -> Result<f64, MeasureError> {
        for _ in 0..3 {
            execute()?;
        }
        self.driver.wait()?;
        let (started, mut count) = (Instant::now(), 0u32);
        while started.elapsed() < measured {
            for _ in 0..10 {
                execute()?;
            }
            self.driver.wait()?;
            count += 10;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    }
}
