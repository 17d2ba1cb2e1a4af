//! Webhook receiver for tests: records the head and body of each notice.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use serde_json::Value;

/// An HTTP server on 127.0.0.1 that records heads and bodies of requests.
pub struct Receiver {
    pub url: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
                });
                let mut body = vec![0; length.unwrap()];
                reader.read_exact(&mut body).unwrap();
                recorded.lock().unwrap().push((head, serde_json::from_slice(&body).unwrap()));
                stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }
}
