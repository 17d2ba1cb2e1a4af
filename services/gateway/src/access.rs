//! Access to a local server: each caller authenticates as the user who started the server.
//!
//! Programs send a token in the header `Authorization`; a browser has a cookie, set in exchange for the code in a sign-in link. A
//! code is valid once: other users may see the link in the process list when a program opens it.

use std::sync::{Mutex, PoisonError};

use axum::http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, COOKIE},
};
use service::ids;
use subtle::ConstantTimeEq;

/// Query parameter with the code of the sign-in link.
pub(crate) const CODE: &str = "code";

/// Function that is called with each new sign-in link.
type Publish = Box<dyn Fn(&str) + Send + Sync>;

/// The secrets of one server process.
pub struct LocalAccess {
    user: String,
    address: String,
    token: String,
    session: String,
    /// Cookie name, unique per server: browsers share cookies between the ports of a host.
    cookie: String,
    code: Mutex<String>,
    publish: Publish,
}

/// The user who started this server, as a request extension.
#[derive(Clone, Debug)]
pub struct LocalUser(pub String);

impl LocalAccess {
    /// New secrets for the server of `user` at `address` (host and port). `publish` receives the first sign-in link, and a new one
    /// after each use.
    pub fn new(user: &str, address: &str, publish: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        let access = Self {
            user: user.to_owned(),
            address: address.to_owned(),
            token: ids::secret(),
            session: ids::secret(),
            cookie: format!("burnin_{port}"),
            code: Mutex::new(ids::secret()),
            publish: Box::new(publish),
        };
        (access.publish)(&access.link());
        access
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Authentication header of programs; browsers use a cookie.
    pub fn header(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    /// Sign-in link for one browser, valid once.
    pub fn link(&self) -> String {
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        format!("http://{}/?{CODE}={code}", self.address)
    }

    /// The user, if the request carries the token or the cookie.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<LocalUser> {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
        let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let by_token = token.is_some_and(|(_, token)| same(token.trim(), &self.token));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let ours = pairs.filter(|(name, _)| *name == self.cookie);
        let by_cookie = ours.fold(false, |known, (_, value)| known | same(value, &self.session));
        (by_token || by_cookie).then(|| LocalUser(self.user.clone()))
    }

    /// Exchanges the code of a link for the cookie, and publishes a new link.
    pub(crate) fn exchange(&self, code: &str) -> Option<HeaderValue> {
        let mut current = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(code, &current) {
            return None;
        }
        *current = ids::secret();
        drop(current);
        (self.publish)(&self.link());
        let (name, session) = (&self.cookie, &self.session);
        HeaderValue::try_from(format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict")).ok()
    }
}

/// Compares in constant time for equal lengths.
fn same(offered: &str, secret: &str) -> bool {
    offered.as_bytes().ct_eq(secret.as_bytes()).into()
}
