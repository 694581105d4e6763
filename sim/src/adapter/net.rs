//! The engine's network: sockets of its simulated host.

use crate::world::Host;
use squall::port::{Listener, LocalFuture, Net, Stream};
use std::io;
use std::rc::Rc;

/// TLS is not simulated: a stream with `tls` is a plain one.
#[derive(Clone)]
pub struct SimNet(Host);

impl SimNet {
    pub fn new(host: Host) -> SimNet {
        SimNet(host)
    }
}

impl Net for SimNet {
    fn connect(&self, host: &str, port: u16, _tls: bool) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        let (own, host) = (self.0.clone(), host.to_owned());
        Box::pin(async move { Ok(Box::new(own.connect(&host, port).await?) as Box<dyn Stream>) })
    }

    fn listen(&self, addr: &str) -> LocalFuture<'static, io::Result<Rc<dyn Listener>>> {
        let (own, addr) = (self.0.clone(), addr.to_owned());
        Box::pin(async move {
            let port = addr.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            let port = port.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            Ok(Rc::new(SimListener(Rc::new(own.listen(port)?))) as Rc<dyn Listener>)
        })
    }
}

struct SimListener(Rc<crate::world::net::Listener>);

impl Listener for SimListener {
    fn accept(&self) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        let listener = self.0.clone();
        Box::pin(async move { Ok(Box::new(listener.accept().await?) as Box<dyn Stream>) })
    }
    fn local_addr(&self) -> io::Result<String> {
        Ok(format!("127.0.0.1:{}", self.0.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::SimClock;
    use crate::seed::Seed;
    use crate::world::simulate;
    use squall::base::{MonoTime, Span, WallTime};
    use squall::port::Clock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn an_engine_listens_where_it_is_told_and_keeps_its_time_over_a_kill() {
        simulate(&Seed::new(1), async |world| {
            let (engine, user) = (world.add_host("engine", Span::ZERO), world.add_host("user", Span::from_ms(1)));
            let clock = SimClock::new(world.clone(), WallTime(1_000));
            for addr in ["127.0.0.1:7878", "127.0.0.1:7878"] {
                let (net, clock) = (SimNet::new(engine.clone()), clock.clone());
                engine.start(async move {
                    let listener = net.listen(addr).await.unwrap();
                    assert_eq!(listener.local_addr().unwrap(), addr);
                    let mut stream = listener.accept().await.unwrap();
                    clock.sleep_until(clock.mono() + Span::from_secs(1)).await;
                    stream.write_all(b"x").await.unwrap();
                    std::future::pending::<()>().await;
                });
                world.sleep(Span::from_ms(1)).await; // A process listens in its first turn, not before.
                let mut stream = SimNet::new(user.clone()).connect("engine", 7878, true).await.unwrap();
                stream.read_exact(&mut [0]).await.unwrap();
                engine.kill();
            }
            assert_eq!((clock.mono(), clock.wall()), (MonoTime(2_010), WallTime(3_010)));
            let refused = SimNet::new(user).connect("engine", 7878, false).await.err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let invalid = SimNet::new(engine).listen("nonsense").await.err().unwrap();
            assert_eq!(invalid.kind(), io::ErrorKind::InvalidInput);
        });
    }
}
