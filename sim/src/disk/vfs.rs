//! SQLite on a [`Volume`]: a VFS of its own per simulation, the only unsafe code of the harness.
//!
//! The VFS is registered under a name that no other living one has (its address), and unregistered when neither a
//! [`Vfs`] nor an open file is left: a connection may outlive everything else. No panic crosses into C: it becomes an
//! I/O error, and the simulation's panic watch fails the run. A connection that is used from another thread than the
//! one that made the VFS gets errors and touches nothing. SQLite's clock is the volume's and its sleep blocks the
//! process; its own random numbers (they salt the log) are the one thing that two simulations share, so bytes of a
//! log are never compared. Over 400 lines because SQLite asks for so many functions, and unsafe code stays in one place.
//! **Source:** storage.md A, B.2; SQLite's "sqlite3_vfs" and "sqlite3_io_methods".

use super::lock::{Level, SLOTS};
use super::shm::{REGION, Shm};
use super::volume::{Opened, Refusal, User, Volume};
use crate::scenario::DiskCode;
use rusqlite::{Connection, OpenFlags, ffi};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::thread::ThreadId;

/// SQLite's days begin in 4714 BC; this is the first of 1970, in milliseconds.
const EPOCH_MS: i64 = 210_866_760_000_000;

/// Opens databases on a volume. Cheap to clone.
#[derive(Clone)]
pub struct Vfs(Rc<Registered>);

/// Alive as long as anything of SQLite's may still call it.
struct Registered {
    /// Made by `Box::into_raw`, freed on drop.
    vfs: *mut ffi::sqlite3_vfs,
    name: CString,
    volume: Volume,
    thread: ThreadId,
}

/// What SQLite keeps of an open file. It allocates this, we fill it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// Made by `Box::into_raw` in `open`, freed in `close`; only this thread may look into it.
    handle: *mut Handle,
    thread: ThreadId,
}

struct Handle {
    registered: Rc<Registered>,
    file: Opened,
    level: Level,
    shm: Option<Rc<RefCell<Shm>>>,
}

impl Vfs {
    pub fn new(volume: Volume) -> Vfs {
        let registered = Rc::new_cyclic(|weak| {
            let own: *const Registered = weak.as_ptr();
            let name = CString::new(format!("squall-{own:p}")).expect("a number has no zero byte");
            let vfs = ffi::sqlite3_vfs {
                iVersion: 2,
                szOsFile: size_of::<File>() as c_int,
                mxPathname: 512,
                pNext: ptr::null_mut(),
                zName: name.as_ptr(),
                pAppData: own.cast_mut().cast(),
                xOpen: Some(open),
                xDelete: Some(delete),
                xAccess: Some(access),
                xFullPathname: Some(full_pathname),
                xDlOpen: None,
                xDlError: None,
                xDlSym: None,
                xDlClose: None,
                xRandomness: Some(randomness),
                xSleep: Some(sleep),
                xCurrentTime: Some(current_time),
                xGetLastError: None,
                xCurrentTimeInt64: Some(current_time_ms),
                xSetSystemCall: None,
                xGetSystemCall: None,
                xNextSystemCall: None,
            };
            let thread = std::thread::current().id();
            Registered { vfs: Box::into_raw(Box::new(vfs)), name, volume, thread }
        });
        // SAFETY: the structure and its name live until `Registered` is dropped, which unregisters it first.
        let code = unsafe { ffi::sqlite3_vfs_register(registered.vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes every VFS");
        Vfs(registered)
    }

    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// Opens a database; a process makes it if need be. Whose connection it is stands in its name, for all its files.
    pub fn connect(&self, name: &str, user: User) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let (uri, flags) = match user {
            User::Process(process) => (format!("file:{name}?process={process}"), flags | OpenFlags::SQLITE_OPEN_CREATE),
            User::Outside => (format!("file:{name}"), flags),
        };
        Connection::open_with_flags_and_vfs(uri, flags, self.0.name.as_c_str())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered in `Vfs::new`, and nobody can call it any more: each open file holds one of us.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.vfs);
            drop(Box::from_raw(self.vfs));
        }
    }
}

/// A panic becomes `failed`.
fn guarded(failed: c_int, act: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(failed)
}

/// What SQLite is told. `plain`: of an input or output error of this operation.
fn code(result: Result<(), Refusal>, plain: c_int) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(Refusal::Disk(DiskCode::Ioerr)) => plain,
        Err(Refusal::Disk(DiskCode::Full)) => ffi::SQLITE_FULL,
        Err(Refusal::Disk(DiskCode::Busy)) => ffi::SQLITE_BUSY,
        Err(Refusal::Disk(DiskCode::Readonly)) => ffi::SQLITE_READONLY,
        Err(Refusal::NotFound) => ffi::SQLITE_CANTOPEN,
        Err(Refusal::Dead) => ffi::SQLITE_IOERR,
    }
}

/// # Safety
/// `vfs` is one of ours.
unsafe fn with_vfs(vfs: *mut ffi::sqlite3_vfs, act: impl FnOnce(&Rc<Registered>) -> c_int) -> c_int {
    // SAFETY: the caller's promise; `pAppData` points into the `Rc` that `Vfs::new` made, which is alive as long as
    // SQLite may call. Its thread is read before anything that is not for other threads.
    guarded(ffi::SQLITE_IOERR, || unsafe {
        let registered = (*vfs).pAppData.cast::<Registered>().cast_const();
        if (*registered).thread != std::thread::current().id() {
            return ffi::SQLITE_MISUSE;
        }
        Rc::increment_strong_count(registered);
        act(&Rc::from_raw(registered))
    })
}

/// # Safety
/// `file` was opened by [`open`] and not closed.
unsafe fn with_file(file: *mut ffi::sqlite3_file, act: impl FnOnce(&mut Handle) -> c_int) -> c_int {
    // SAFETY: the caller's promise; SQLite makes no two calls for one file at a time, so the handle is ours alone.
    guarded(ffi::SQLITE_IOERR, || unsafe {
        let File { handle, thread, .. } = &*file.cast::<File>();
        if *thread != std::thread::current().id() {
            return ffi::SQLITE_MISUSE;
        }
        act(&mut **handle)
    })
}

/// # Safety
/// `name` is null or a C string.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; SQLite keeps the text for as long as the call lasts.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Whose connection a file belongs to.
///
/// # Safety
/// `name` is null, or the name of a database, a log or a journal as SQLite gave it.
unsafe fn user(name: *const c_char) -> User {
    if name.is_null() {
        return User::Outside;
    }
    // SAFETY: the caller's promise.
    let process = unsafe { ffi::sqlite3_uri_int64(name, c"process".as_ptr(), -1) };
    u64::try_from(process).map_or(User::Outside, User::Process)
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a VFS of ours, room for a `File`, a C string or null, and null or room for the flags. A
    // file without methods is one that SQLite does not close.
    unsafe {
        (*file).pMethods = ptr::null();
        with_vfs(vfs, |registered| {
            let make = flags & ffi::SQLITE_OPEN_CREATE != 0;
            match registered.volume.open(text(name), make, user(name)) {
                Ok(opened) => {
                    let handle = Handle { registered: registered.clone(), file: opened, level: Level::None, shm: None };
                    let base = ffi::sqlite3_file { pMethods: &METHODS };
                    let (handle, thread) = (Box::into_raw(Box::new(handle)), registered.thread);
                    file.cast::<File>().write(File { base, handle, thread });
                    if !out_flags.is_null() {
                        *out_flags = flags;
                    }
                    ffi::SQLITE_OK
                }
                Err(refusal) => code(Err(refusal), ffi::SQLITE_CANTOPEN),
            }
        })
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite gives a VFS of ours and a C string.
    unsafe {
        with_vfs(vfs, |registered| {
            let (volume, user) = (&registered.volume, user(name));
            match volume.delete(text(name).unwrap_or_default(), user) {
                Err(Refusal::NotFound) => ffi::SQLITE_IOERR_DELETE_NOENT,
                Ok(()) if sync_dir != 0 => code(volume.sync_dir(user), ffi::SQLITE_IOERR_DIR_FSYNC),
                result => code(result, ffi::SQLITE_IOERR_DELETE),
            }
        })
    }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int, out: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a VFS of ours, a C string, and room for the answer.
    unsafe {
        with_vfs(vfs, |registered| {
            *out = c_int::from(registered.volume.holds(text(name).unwrap_or_default()));
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a C string and `room` bytes for it.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if usize::try_from(room).is_ok_and(|room| bytes.len() <= room) {
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
            ffi::SQLITE_OK
        } else {
            ffi::SQLITE_CANTOPEN
        }
    }
}

/// No secret depends on it, and it must be the same every time.
unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite gives `len` bytes to fill.
    unsafe { ptr::write_bytes(out, 0x5a, usize::try_from(len).unwrap_or(0)) };
    len
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, us: c_int) -> c_int {
    // SAFETY: SQLite gives a VFS of ours.
    unsafe {
        with_vfs(vfs, |registered| {
            registered.volume.block(u64::try_from(us).unwrap_or(0).div_ceil(1_000));
            us
        })
    }
}

unsafe extern "C" fn current_time_ms(vfs: *mut ffi::sqlite3_vfs, out: *mut i64) -> c_int {
    // SAFETY: SQLite gives a VFS of ours, and room for the answer.
    unsafe {
        with_vfs(vfs, |registered| {
            *out = EPOCH_MS.saturating_add_unsigned(registered.volume.now_ms());
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    let mut ms = 0;
    // SAFETY: SQLite gives a VFS of ours, and room for the answer.
    unsafe {
        let result = current_time_ms(vfs, &raw mut ms);
        *out = ms as f64 / 86_400_000.0;
        result
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file that we opened once, and does not use it afterwards. On another thread the handle
    // is leaked: dropping it would not be safe there.
    guarded(ffi::SQLITE_IOERR, || unsafe {
        let File { handle, thread, .. } = &*file.cast::<File>();
        if *thread != std::thread::current().id() {
            return ffi::SQLITE_MISUSE;
        }
        let handle = Box::from_raw(*handle);
        handle.registered.volume.close(&handle.file);
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives an open file of ours and `len` bytes, which it lets nobody else touch. They may not be
    // initialised, so they are before they are a slice.
    unsafe {
        with_file(file, |handle| {
            let len = usize::try_from(len).unwrap_or(0);
            ptr::write_bytes(into.cast::<u8>(), 0, len);
            let into = std::slice::from_raw_parts_mut(into.cast::<u8>(), len);
            match handle.registered.volume.read(&handle.file, at.unsigned_abs(), into) {
                Ok(got) if got < len => ffi::SQLITE_IOERR_SHORT_READ,
                Ok(_) => ffi::SQLITE_OK,
                Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_READ),
            }
        })
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives an open file of ours and `len` bytes.
    unsafe {
        with_file(file, |handle| {
            let data = std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(len).unwrap_or(0));
            let result = handle.registered.volume.write(&handle.file, at.unsigned_abs(), data);
            code(result, ffi::SQLITE_IOERR_WRITE)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: SQLite gives an open file of ours.
    unsafe {
        with_file(file, |handle| {
            let result = handle.registered.volume.truncate(&handle.file, len.unsigned_abs());
            code(result, ffi::SQLITE_IOERR_TRUNCATE)
        })
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours.
    unsafe { with_file(file, |handle| code(handle.registered.volume.sync(&handle.file), ffi::SQLITE_IOERR_FSYNC)) }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: SQLite gives an open file of ours, and room for the answer.
    unsafe {
        with_file(file, |handle| match handle.registered.volume.len(&handle.file) {
            Ok(len) => {
                *out = i64::try_from(len).unwrap_or(i64::MAX);
                ffi::SQLITE_OK
            }
            Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_FSTAT),
        })
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours.
    unsafe {
        with_file(file, |handle| {
            let Some(level) = Level::from_code(level) else { return ffi::SQLITE_MISUSE };
            if handle.level >= level {
                return ffi::SQLITE_OK;
            }
            match handle.registered.volume.lock(&handle.file, level) {
                Ok(true) => {
                    handle.level = level;
                    ffi::SQLITE_OK
                }
                Ok(false) => ffi::SQLITE_BUSY,
                Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_LOCK),
            }
        })
    }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours.
    unsafe {
        with_file(file, |handle| {
            let Some(level) = Level::from_code(level) else { return ffi::SQLITE_MISUSE };
            handle.registered.volume.unlock(&handle.file, level);
            handle.level = handle.level.min(level);
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours, and room for the answer.
    unsafe {
        with_file(file, |handle| match handle.registered.volume.is_reserved(&handle.file) {
            Ok(reserved) => {
                *out = c_int::from(reserved);
                ffi::SQLITE_OK
            }
            Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_CHECKRESERVEDLOCK),
        })
    }
}

/// Nothing that SQLite asks for here matters to a simulated disk.
unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

/// As the one for Unix says.
unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4_096
}

/// As the one for Unix says. More would be a kinder disk than the real one: with SEQUENTIAL, syncs are left out.
unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives an open file of ours, and room for the address. The region lives as long as the handle has
    // the shared memory, which is until `shm_unmap`; until then SQLite may use it.
    unsafe {
        *out = ptr::null_mut();
        with_file(file, |handle| {
            let Ok(index) = usize::try_from(region) else { return ffi::SQLITE_MISUSE };
            if usize::try_from(size) != Ok(REGION) {
                return ffi::SQLITE_MISUSE;
            }
            match handle.registered.volume.shm(&handle.file, index + 1, extend != 0) {
                Ok(shm) => {
                    if index < shm.borrow().regions() {
                        *out = shm.borrow().region(index).cast();
                    }
                    handle.shm = Some(shm);
                    ffi::SQLITE_OK
                }
                // No room for it is an error of this operation, not FULL.
                Err(Refusal::Disk(_)) => ffi::SQLITE_IOERR_SHMSIZE,
                Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_SHMMAP),
            }
        })
    }
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, slot: c_int, slots: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours.
    unsafe {
        with_file(file, |handle| {
            let Some(shm) = &handle.shm else { return ffi::SQLITE_IOERR_SHMLOCK };
            let Some(slots) = bits(slot, slots) else { return ffi::SQLITE_MISUSE };
            if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
                shm.borrow_mut().lock.release(handle.file.id, slots);
                return ffi::SQLITE_OK;
            }
            let shared = flags & ffi::SQLITE_SHM_SHARED != 0;
            match handle.registered.volume.lock_shm(&handle.file, shm, slots, shared) {
                Ok(true) => ffi::SQLITE_OK,
                Ok(false) => ffi::SQLITE_BUSY,
                Err(refusal) => code(Err(refusal), ffi::SQLITE_IOERR_SHMLOCK),
            }
        })
    }
}

/// `count` slots from `first` on, as bits.
fn bits(first: c_int, count: c_int) -> Option<u8> {
    let (first, count) = (usize::try_from(first).ok()?, usize::try_from(count).ok()?);
    let all = (1_u16 << count.min(SLOTS)) - 1;
    (count > 0 && first + count <= SLOTS).then(|| (all << first) as u8)
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite gives an open file of ours, and uses no region afterwards.
    unsafe {
        with_file(file, |handle| {
            handle.registered.volume.leave_shm(&handle.file);
            handle.shm = None;
            ffi::SQLITE_OK
        })
    }
}
